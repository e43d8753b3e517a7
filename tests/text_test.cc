#include "models/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {
namespace {

std::string complaint(auto&& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

class TextFile : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) /
                 ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path write(const std::string& content) {
    const std::filesystem::path path = directory_ / "text";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::filesystem::path directory_;
};

Text counting(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return Text::from_bytes(bytes);
}

TEST_F(TextFile, GivesEveryByteOfAFile) {
  std::string all;
  for (int i = 0; i < 256 * 300; ++i) all += static_cast<char>(i);
  const Text text = Text::read(write(all));
  ASSERT_EQ(text.bytes().size(), all.size());
  EXPECT_TRUE(std::equal(text.bytes().begin(), text.bytes().end(), all.begin(),
                         [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); }));
}

TEST_F(TextFile, SaysWhatIsWrongWithAPath) {
  EXPECT_NE(complaint([&] { Text::read(directory_ / "absent"); }).find("no file"),
            std::string::npos);
  EXPECT_NE(complaint([&] { Text::read(directory_); }).find("is a directory"), std::string::npos);
  EXPECT_NE(complaint([] { Text::read("/dev/zero"); }).find("is a device"), std::string::npos);
  EXPECT_NE(complaint([&] { Text::read(write("")); }).find("is empty"), std::string::npos);
  EXPECT_NE(complaint([&] { Text::read(write("x") / "y"); }).find("text"), std::string::npos);
}

TEST_F(TextFile, SaysThatAFileCannotBeRead) {
  // /proc/self/mem opens for everybody, root too, and its first page cannot be read.
  const std::string why = complaint([] { Text::read("/proc/self/mem"); });
  EXPECT_NE(why.find("cannot read"), std::string::npos) << why;
}

TEST(Text, SaysHowManyBytesAContextNeeds) {
  const std::string why = complaint([] { counting(1299).require(64); });
  EXPECT_NE(why.find("1299 bytes"), std::string::npos) << why;
  EXPECT_NE(why.find("1300"), std::string::npos) << why;
  EXPECT_NO_THROW(counting(1300).require(64));
}

TEST(Text, HoldsOutTheLastTwentieth) {
  EXPECT_EQ(counting(1000).train_size(), 950u);
  EXPECT_EQ(counting(1019).train_size(), 969u);
}

TEST(Text, NeverTrainsOnHeldOutBytes) {
  const Text text = counting(1300);
  std::set<std::size_t> starts;
  for (std::uint64_t step = 0; step < 20000; ++step) starts.insert(text.sample({1, step, 0}, 64));
  EXPECT_EQ(*starts.begin(), 0u);
  EXPECT_EQ(*starts.rbegin() + 65, text.train_size());  // the last window ends where they begin
  EXPECT_EQ(starts.size(), text.train_size() - 64);     // every window is reached
}

TEST(Text, DrawsWindowsUniformly) {
  const Text text = counting(20000);
  std::vector<int> tenths(10);
  for (std::uint64_t i = 0; i < 10000; ++i) {
    ++tenths[text.sample({5, i / 100, i % 100}, 100) * 10 / (text.train_size() - 100)];
  }
  for (int count : tenths) EXPECT_NEAR(count, 1000, 150);  // five deviations
}

TEST(Text, DrawsDependOnSeedStepAndIndex) {
  const Text text = counting(200000);
  const std::size_t start = text.sample({1, 2, 3}, 10);
  EXPECT_EQ(text.sample({1, 2, 3}, 10), start);
  EXPECT_NE(text.sample({2, 2, 3}, 10), start);
  EXPECT_NE(text.sample({1, 3, 3}, 10), start);
  EXPECT_NE(text.sample({1, 2, 4}, 10), start);
  EXPECT_NE(text.sample({1, 3, 2}, 10), start);
}

TEST(Text, SpreadsHeldOutWindowsFromTheFirstToTheLast) {
  const Text text = counting(20000);
  EXPECT_EQ(text.held_out({0, 5}, 99), 19000u);
  EXPECT_EQ(text.held_out({1, 5}, 99), 19225u);
  EXPECT_EQ(text.held_out({4, 5}, 99), 19900u);
  EXPECT_EQ(text.held_out({0, 1}, 99), 19000u);
}

}  // namespace
}  // namespace thinwire
