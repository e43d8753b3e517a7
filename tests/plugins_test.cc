// What a method is, only its own files know.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "optimizers/catalog.h"

namespace thinwire::test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A branch on a method would have to name it.
TEST(Plugins, NoOtherRoomNamesAMethod) {
  int files = 0;
  for (const char* room : {"src", "include", "transports", "models"}) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(THINWIRE_SOURCE_DIR) / room)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      const std::string text = text_of(entry.path());
      for (const std::string& method : optimizer_catalog().names()) {
        EXPECT_EQ(text.find('"' + method + '"'), std::string::npos)
            << entry.path() << " names the method " << method;
      }
    }
  }
  EXPECT_GT(files, 100);
}

}  // namespace
}  // namespace thinwire::test
