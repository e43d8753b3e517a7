#include "apps/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/made_up_result.h"

namespace thinwire::app {
namespace {

std::size_t longest_line(const std::string& text) {
  std::istringstream in(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(in, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Texts, ReadAsPeopleWriteThem) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(327), "327 B");
  EXPECT_EQ(bytes_text(2.5), "2.50 B");
  EXPECT_EQ(bytes_text(999.7), "1.00 kB");
  EXPECT_EQ(bytes_text(702336), "702 kB");
  EXPECT_EQ(bytes_text(1.234e9), "1.23 GB");
  EXPECT_EQ(bytes_text(kNan), "-");
  EXPECT_EQ(seconds_text(0.0451), "45.1 ms");
  EXPECT_EQ(seconds_text(0.99999), "1.00 s");
  EXPECT_EQ(seconds_text(738), "12.3 min");
  EXPECT_EQ(seconds_text(44280), "12.3 h");
  EXPECT_EQ(ratio_text(2150.3), "1/2150");
  EXPECT_EQ(ratio_text(3.14), "1/3.1");
  EXPECT_EQ(ratio_text(1.0), "1");
  EXPECT_EQ(ratio_text(0.5), "2.0x");
  EXPECT_EQ(ratio_text(kNan), "-");
  EXPECT_EQ(count_text(1234567.4), "1,234,567");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(-1234), "-1,234");
}

TEST(Table, SaysEverythingWithinEightyColumns) {
  std::string text = table(made_up());
  EXPECT_LE(longest_line(text), 80u) << text;
  for (const char* part :
       {"2.2800 +- 0.0042", "+0.0600", "327 B", "981 B", "1/2148", "1/716", "12.1 ms",
        "not reached", "48,123", "313", "2.3500", "50 ms", "3 seeds", "4 sites", "skipped"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Table, StaysWithinEightyColumnsWithUnreasonableValues) {
  CompareResult result = made_up();
  result.methods[0].method = std::string(120, 'm');
  result.methods[1].loss = 1e12;
  result.methods[1].loss_sd = 1e12;
  result.methods[1].gap = -1e12;
  result.methods[2].bytes_up = 1e30;
  result.methods[2].ratio_up = 1e12;
  result.methods[2].tokens_per_s = 1e15;
  result.methods[2].step_s = 1e9;
  result.model = std::string(300, 'w');
  result.link = std::string(200, 'l');
  EXPECT_LE(longest_line(table(result)), 80u) << table(result);
}

TEST(Table, SpeaksOfSkipsOnlyWhereThereAreAny) {
  CompareResult result = made_up();
  result.methods[1].skipped = 0;
  std::string text = table(result);
  EXPECT_EQ(text.find("kipped"), std::string::npos);
}

TEST(Table, ShowsADivergedMethodAndAMissingBaseline) {
  CompareResult result = made_up();
  result.methods.erase(result.methods.begin());
  result.methods[0].loss = result.methods[0].gap = result.methods[1].gap = kNan;
  std::string text = table(result);
  EXPECT_NE(text.find("diverged"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace thinwire::app
