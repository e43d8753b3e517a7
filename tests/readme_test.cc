// The README and the pages it leads to: its program is the one that is built, its links lead
// somewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = THINWIRE_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// What stands between the lines "```cpp" and "```", the first time.
std::string first_program(const std::string& page) {
  const std::string begin = "\n```cpp\n";
  const std::size_t from = page.find(begin);
  if (from == page.npos) return "";
  const std::size_t to = page.find("\n```\n", from + begin.size());
  return page.substr(from + begin.size(), to + 1 - from - begin.size());
}

// Targets of [text](target) that are files of the tree: no addresses, no places within a page.
std::vector<std::string> links(const std::string& page) {
  static const std::regex kLink(R"re(\]\(([^)#: ]+)(#[^)]*)?\))re");
  std::vector<std::string> found;
  for (std::sregex_iterator at(page.begin(), page.end(), kLink), end; at != end; ++at) {
    found.push_back((*at)[1]);
  }
  return found;
}

TEST(Readme, ShowsTheProgramThatIsBuilt) {
  EXPECT_EQ(first_program(read(kRoot / "README.md")), read(kRoot / "examples/fifteen_lines.cc"));
}

TEST(Readme, LinksOfEveryPageLeadToFiles) {
  std::vector<fs::path> pages{kRoot / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  EXPECT_FALSE(links(read(pages[0])).empty());
  for (const fs::path& page : pages) {
    for (const std::string& link : links(read(page))) {
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page << " leads to " << link;
    }
  }
}

}  // namespace
