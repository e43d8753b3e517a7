// A directory of its own with a small text in it, and the program at hand.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace thinwire::test {

using Words = std::vector<std::string>;

class CliTest : public testing::Test {
 protected:
  CliTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "thinwire_cli_XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
    std::filesystem::permissions(dir_, std::filesystem::perms(0755));
    std::string text;
    for (int i = 0; text.size() < 8000; ++i) {
      text += "line " + std::to_string(i * i % 97) + " of a small text\n";
    }
    write("text", text);
  }
  ~CliTest() override { std::filesystem::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(dir_ / name, std::ios::binary) << content;
    return path(name);
  }

  std::string read(const std::string& name) const {
    std::ifstream in(dir_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::set<std::string> names_in(const std::string& name) const {
    std::set<std::string> names;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / name, none)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  Launch launch(const Words& words) const {
    Launch launch{.words = {THINWIRE_PROGRAM}};
    launch.words.insert(launch.words.end(), words.begin(), words.end());
    launch.directory = dir_.string();
    return launch;
  }

  Outcome run(const Words& words) const { return run_program(launch(words)); }

  // The smallest run: a model of one layer, two sites, six steps. Later words win over these.
  static Words small_run(const std::string& out, const Words& more = {}) {
    Words words{"compare", "--data",  "text", "--out",        out, "--sites",        "2", "--batch",
                "4",       "--steps", "6",    "--eval-every", "3", "--eval-windows", "8"};
    for (const char* set : {"model.layers=1", "model.width=64", "model.context=32"}) {
      words.insert(words.end(), {"--set", set});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // One line that begins with the program's name and holds `part`, and nothing else anywhere.
  void expect_refused(const Launch& launch, int code, const std::string& part) const {
    std::string given;
    for (const std::string& word : launch.words) given += word + " ";
    SCOPED_TRACE(given);
    const Outcome outcome = run_program(launch);
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("thinwire: ")) << outcome.err;
    EXPECT_EQ(outcome.err.find('\n') + 1, outcome.err.size()) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << "lacks: " << part;
    EXPECT_EQ(names_in("out"), std::set<std::string>());
  }
  void expect_usage_error(const Words& words, const std::string& part) const {
    expect_refused(launch(words), 2, part);
  }

  std::filesystem::path dir_;
};

}  // namespace thinwire::test
