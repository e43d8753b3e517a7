// Who may include whom (docs/design.md, section 2), read from the #include lines of the tree.
// Includes point one way, and a third-party header appears in exactly one place. apps, examples,
// bench and tests choose freely among our own rooms.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string_view>;

struct Room {
  std::string_view prefix;
  Words may_see;   // prefixes of our own headers, besides those of the room itself
  Words must_not;  // headers that may_see would allow and the room's rule forbids
  std::string_view rule;
};

const std::vector<Room> kRooms = {
    {"include/thinwire/", {"thinwire/"}, {}, "the vocabulary sees only itself"},
    {"src/kernels/",
     {"thinwire/kernels.h", "thinwire/range_kernels.h", "thinwire/tile_kernels.h",
      "thinwire/types.h", "thinwire/error.h", "thinwire/shard.h", "thinwire/tile.h",
      "thinwire/hash.h", "thinwire/device.h", "thinwire/coarse.h", "thinwire/coarse_kernels.h",
      "thinwire/moment_kernels.h", "src/device/"},
     {},
     "kernels know spans of floats and tiles, and the device where these lie"},
    {"src/device/",
     {"thinwire/types.h", "thinwire/error.h", "thinwire/device.h"},
     {},
     "a device knows memory and the order of work, not what the work is"},
    {"optimizers/",
     {"thinwire/"},
     {"thinwire/exchange.h", "thinwire/sync.h", "thinwire/trainer.h", "thinwire/link_model.h",
      "thinwire/model.h", "thread", "mutex", "condition_variable", "chrono"},
     "optimizers know no bytes, peers, threads or clocks"},
    {"models/",
     {"thinwire/", "src/device/"},
     {"thinwire/optimizer.h", "thinwire/exchange.h", "thinwire/sync.h", "thinwire/trainer.h"},
     "models know units and kernels, not optimizers or links"},
    {"src/codec/",
     {"thinwire/"},
     {"thinwire/optimizer.h", "thinwire/sync.h", "thinwire/trainer.h", "thinwire/collective.h",
      "thinwire/link_model.h"},
     "the codec knows updates, rounds (exchange.h names them) and bytes, not networks or "
     "optimizers"},
    {"transports/",
     {"thinwire/", "src/device/"},
     {"thinwire/update.h", "thinwire/optimizer.h", "thinwire/sync.h", "thinwire/trainer.h"},
     "transports know bytes, floats, where these lie, peers and rounds, not updates"},
    {"src/core/",
     {"thinwire/", "src/codec/", "src/device/"},
     {},
     "the core sees the vocabulary, the codec and device memory, no optimizer, no transport"},
};
// They choose: any of our own headers.
const Words kFreeRooms = {"apps/", "examples/", "bench/", "tests/"};
const Words kOurs = {"thinwire/", "src/",      "optimizers/", "transports/", "models/",
                     "apps/",     "examples/", "bench/",      "tests/"};

struct Foreign {
  std::string_view header;  // a prefix of what stands in the #include
  Words places;             // prefixes of the files that may
};

const std::vector<Foreign> kForeign = {
    {"zmq", {"transports/zmq"}},
    {"gloo/", {"transports/gloo"}},
    {"nccl", {"transports/nccl"}},
    {"cuda", {"transports/nccl", "src/device/"}},
    {"cublas", {"models/cublas"}},
    {"cub/", {"src/kernels/"}},
    {"zstd", {"src/codec/"}},
    {"xxhash.h", {"src/codec/"}},
    {"Eigen/", {"models/", "src/kernels/"}},
    {"hwy/", {"src/kernels/"}},
    {"immintrin.h", {"src/kernels/"}},
    {"toml++/", {"apps/"}},
    {"CLI/", {"apps/"}},
    {"spdlog/", {"src/core/log.cc"}},
    {"fmt/", {"src/core/log.cc", "apps/"}},
    {"nlohmann/", {"apps/", "src/core/checkpoint"}},
    // The system's own, where files, sockets and processes belong.
    {"sys/", {"src/core/", "transports/", "apps/"}},
    {"netinet/", {"transports/"}},
    {"arpa/", {"transports/"}},
    {"net/", {"transports/"}},
    {"netdb.h", {"transports/"}},
    {"ifaddrs.h", {"transports/"}},
    {"poll.h", {"transports/", "apps/"}},
    {"spawn.h", {"apps/"}},
    {"malloc.h", {"apps/"}},
    {"pthread.h", {"src/core/", "transports/"}},
    {"sched.h", {"src/core/", "transports/"}},
    {"dlfcn.h", {"transports/", "models/cublas"}},
    {"unistd.h", {"src/core/", "transports/", "apps/"}},
    {"fcntl.h", {"src/core/", "transports/", "apps/"}},
    {"signal.h", {"src/core/", "apps/", "transports/gloo"}},
};
const Words kFreeForForeign = {"examples/", "bench/", "tests/"};

bool starts(std::string_view text, const Words& prefixes) {
  return std::ranges::any_of(prefixes, [&](auto one) { return text.starts_with(one); });
}

// Headers of these rooms are installed unless named *_internal.h: their users need none of our
// tools.
bool is_installed(std::string_view file) {
  return file.ends_with(".h") && !file.ends_with("_internal.h") &&
         starts(file, {"include/", "optimizers/", "transports/", "models/"});
}

const Room* room_of(std::string_view file) {
  for (const Room& room : kRooms)
    if (file.starts_with(room.prefix)) return &room;
  return nullptr;
}

// Nothing when the include is allowed, else the rule it breaks.
std::optional<std::string> judge_ours(std::string_view file, std::string_view header) {
  const Room* room = room_of(file);
  if (room == nullptr) {
    if (starts(file, kFreeRooms)) return std::nullopt;
    return "the file lies in no room";
  }
  if (header.starts_with("src/") && is_installed(file))
    return "an installed header cannot see src/; use a forward declaration";
  if (header.starts_with(room->prefix)) return std::nullopt;
  if (starts(header, room->may_see) && !starts(header, room->must_not)) return std::nullopt;
  return std::string(room->rule);
}

std::optional<std::string> judge_foreign(std::string_view file, std::string_view header) {
  if (starts(file, kFreeForForeign)) return std::nullopt;
  for (const Foreign& foreign : kForeign) {
    if (!header.starts_with(foreign.header)) continue;
    if (is_installed(file)) return "an installed header includes nothing foreign";
    if (starts(file, foreign.places)) return std::nullopt;
    std::string places;
    for (auto one : foreign.places) places += (places.empty() ? "" : ", ") + std::string(one);
    return "this header belongs in " + places + " alone";
  }
  if (header.find_first_of("./") != header.npos)
    return "no rule for this header; give it one in tests/layers_test.cc";
  const Room* room = room_of(file);  // the standard library
  if (room != nullptr && std::ranges::find(room->must_not, header) != room->must_not.end())
    return std::string(room->rule);
  return std::nullopt;
}

std::optional<std::string> judge(std::string_view file, std::string_view header, bool quoted) {
  if (quoted && header.find('/') == header.npos) {
    if (file.starts_with("apps/") || starts(file, kFreeForForeign)) return std::nullopt;
    return "name our headers from the root: \"room/header.h\"";
  }
  return starts(header, kOurs) ? judge_ours(file, header) : judge_foreign(file, header);
}

// "file:line: includes X: rule" for every bad line.
std::vector<std::string> complaints(std::string_view file, std::istream& text) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  std::vector<std::string> found;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    std::smatch match;
    if (!std::regex_match(line, match, kInclude)) continue;
    const std::string header = match[2];
    if (auto rule = judge(file, header, match[1] == "\"")) {
      found.push_back(std::string(file) + ":" + std::to_string(number) + ": includes " + header +
                      ": " + *rule);
    }
  }
  return found;
}

std::vector<fs::path> sources() {
  std::vector<fs::path> found;
  const fs::path root = THINWIRE_SOURCE_DIR;
  for (const char* room : {"include", "src", "optimizers", "transports", "models", "apps",
                           "examples", "bench", "tests"}) {
    if (!fs::exists(root / room)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      static const std::set<std::string> kKinds = {".h", ".cc", ".cu", ".cuh"};
      if (entry.is_regular_file() && kKinds.contains(entry.path().extension()))
        found.push_back(entry.path().lexically_relative(root));
    }
  }
  std::ranges::sort(found);
  return found;
}

int lines_of(const fs::path& file) {
  std::ifstream text(file);
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(text), {}, '\n'));
}

TEST(Layers, EveryIncludeOfTheTreeKeepsToItsRoom) {
  const auto files = sources();
  ASSERT_GT(files.size(), 20u) << "is " << THINWIRE_SOURCE_DIR << " the tree?";
  for (const fs::path& file : files) {
    std::ifstream text(THINWIRE_SOURCE_DIR / file);
    ASSERT_TRUE(text) << file;
    for (const std::string& one : complaints(file.generic_string(), text)) ADD_FAILURE() << one;
  }
}

TEST(Layers, PublicHeadersAreShort) {
  for (const fs::path& file : sources()) {
    if (!file.generic_string().starts_with("include/")) continue;
    EXPECT_LE(lines_of(THINWIRE_SOURCE_DIR / file), 120) << file;
  }
}

struct Case {
  std::string file;
  std::string line;
};

int count(const Case& one) {
  std::istringstream text("#pragma once\n" + one.line + "\n");
  const auto found = complaints(one.file, text);
  if (!found.empty()) {
    EXPECT_TRUE(found[0].starts_with(one.file + ":2: ")) << found[0];
  }
  return static_cast<int>(found.size());
}

TEST(Layers, ABadIncludeIsCaughtInEveryRoom) {
  const std::vector<Case> bad = {
      {"include/thinwire/step.h", "#include <zmq.hpp>"},
      {"include/thinwire/step.h", "#include \"optimizers/catalog.h\""},
      {"include/thinwire/step.h", "#include <Eigen/Core>"},
      {"src/kernels/dct.cc", "#include \"thinwire/exchange.h\""},
      {"src/kernels/dct.cc", "#include <zstd.h>"},
      {"optimizers/demo.cc", "#include \"transports/catalog.h\""},
      {"optimizers/demo.cc", "#include \"thinwire/exchange.h\""},
      {"optimizers/demo.cc", "#  include <thread>"},
      {"optimizers/demo.cc", "#include <cuda_runtime.h>"},
      {"models/gpt.cc", "#include \"optimizers/demo.h\""},
      {"models/gpt.cc", "#include \"thinwire/optimizer.h\""},
      {"models/gpt.h", "#include <Eigen/Core>"},
      {"models/gpt_device.cc", "#include <cublasLt.h>"},
      {"models/gpt_device.cc", "#include <dlfcn.h>"},
      {"src/codec/frame.cc", "#include \"thinwire/sync.h\""},
      {"src/codec/frame.cc", "#include <hwy/highway.h>"},
      {"transports/zmq_link.cc", "#include \"thinwire/update.h\""},
      {"transports/zmq_link.cc", "#include <gloo/context.h>"},
      {"transports/zmq_link.h", "#include <zmq.hpp>"},
      {"transports/loopback.cc", "#include \"src/codec/frame.h\""},
      {"src/core/trainer.cc", "#include \"optimizers/catalog.h\""},
      {"src/core/trainer.cc", "#include \"transports/loopback.h\""},
      {"src/core/trainer.cc", "#include <spdlog/spdlog.h>"},
      {"src/core/trainer.cc", "#include \"layout.h\""},
      {"src/core/trainer.cc", "#include <leveldb/db.h>"},
      {"apps/report.cc", "#include <spdlog/spdlog.h>"},
      {"apps/report.cc", "#include <xxhash.h>"},
      {"elsewhere/x.cc", "#include \"thinwire/step.h\""},
  };
  for (const Case& one : bad) EXPECT_EQ(count(one), 1) << one.file << " " << one.line;
}

TEST(Layers, AGoodIncludeIsLeftAlone) {
  const std::vector<Case> good = {
      {"include/thinwire/step.h", "#include \"thinwire/types.h\""},
      {"src/kernels/dct.cc", "#include <hwy/highway.h>"},
      {"optimizers/demo.cc", "#include \"optimizers/demo.h\""},
      {"models/gpt.cc", "#include <Eigen/Core>"},
      {"models/cublas_cuda.cc", "#include <cublasLt.h>"},
      {"src/codec/frame.cc", "#include <zstd.h>  // dense payloads"},
      {"transports/zmq_link.cc", "#include <zmq.hpp>"},
      {"src/core/trainer.cc", "#include \"src/codec/frame.h\""},
      {"src/core/trainer.cc", "// #include \"optimizers/catalog.h\""},
      {"src/core/log.cc", "#include <spdlog/spdlog.h>"},
      {"apps/main.cc", "#include <CLI/CLI.hpp>"},
      {"tests/zmq_test.cc", "#include <zmq.hpp>"},
  };
  for (const Case& one : good) EXPECT_EQ(count(one), 0) << one.file << " " << one.line;
}

}  // namespace
