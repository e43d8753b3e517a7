// What every kernel takes of a multiprocessor, as ptxas said when it was compiled: nothing spills,
// and a change of registers or shared memory shows in docs/gpu_registers.txt.
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Kernel {
  std::string name;
  std::string arch;
  int registers = 0;
  int spills = 0;  // bytes stored and loaded
  int stack = 0;
  int shared = 0;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// room::name<arguments>, without what it returns and takes.
std::string short_name(const std::string& mangled) {
  char* const whole = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  std::string name = whole == nullptr ? mangled : whole;
  std::free(whole);
  if (name.ends_with(')')) {
    std::size_t at = name.size();
    for (int open = 0; at-- > 0;) {
      open += name[at] == ')' ? 1 : name[at] == '(' ? -1 : 0;
      if (open == 0) break;
    }
    name.resize(at);
  }
  if (name.starts_with("void ")) name.erase(0, 5);
  replace_all(name, "(anonymous namespace)::", "");
  replace_all(name, "thinwire::", "");
  replace_all(name, " ", "");
  return name;
}

// Functions that are not inlined into a kernel count as part of it.
std::vector<Kernel> kernels_in(std::istream& words) {
  static const std::regex kEntry("Compiling entry function '(\\w+)' for '(\\w+)'");
  static const std::regex kFrame(
      "(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
  static const std::regex kUsed("Used (\\d+) registers");
  static const std::regex kShared("(\\d+) bytes smem");
  std::vector<Kernel> kernels;
  std::string line;
  while (std::getline(words, line)) {
    std::smatch match;
    if (std::regex_search(line, match, kEntry)) {
      kernels.push_back({.name = short_name(match[1]), .arch = match[2]});
    }
    if (kernels.empty()) continue;
    Kernel& last = kernels.back();
    if (std::regex_search(line, match, kFrame)) {
      last.stack = std::max(last.stack, std::stoi(match[1]));
      last.spills += std::stoi(match[2]) + std::stoi(match[3]);
    }
    if (std::regex_search(line, match, kUsed)) last.registers = std::stoi(match[1]);
    if (std::regex_search(line, match, kShared)) last.shared = std::stoi(match[1]);
  }
  return kernels;
}

std::vector<Kernel> all_kernels() {
  std::vector<Kernel> all;
  std::istringstream objects(THINWIRE_CUDA_OBJECTS);
  std::string object;
  while (std::getline(objects, object, ' ')) {
    std::ifstream words(object + ".ptxas");
    EXPECT_TRUE(words) << object << " was built without cmake/ptxas_report.sh; build it again";
    const auto some = kernels_in(words);
    all.insert(all.end(), some.begin(), some.end());
  }
  std::sort(all.begin(), all.end(), [](const Kernel& a, const Kernel& b) {
    return std::pair(a.name, a.arch) < std::pair(b.name, b.arch);
  });
  return all;
}

std::string table_of(const std::vector<Kernel>& kernels) {
  std::ostringstream table;
  table << "# nvcc " THINWIRE_NVCC_VERSION
           ", sm_80 and sm_90: what ptxas gives each kernel "
           "(tests/cuda/gpu_registers_test.cc)\n"
           "# kernel arch registers spill_bytes stack_bytes shared_bytes\n";
  for (const Kernel& one : kernels) {
    table << one.name << ' ' << one.arch << ' ' << one.registers << ' ' << one.spills << ' '
          << one.stack << ' ' << one.shared << '\n';
  }
  return table.str();
}

// The lines of one text that another lacks.
std::string only_in(const std::string& text, const std::string& other) {
  std::istringstream lines(text);
  std::string found;
  std::string line;
  while (std::getline(lines, line)) {
    if (("\n" + other).find("\n" + line + "\n") == other.npos) found += line + "\n";
  }
  return found;
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(GpuRegisters, NothingSpills) {
  const auto kernels = all_kernels();
  EXPECT_FALSE(kernels.empty());
  for (const Kernel& one : kernels) {
    EXPECT_EQ(one.spills, 0) << one.name << " for " << one.arch << " with " << one.registers
                             << " registers";
    EXPECT_LE(one.shared, 48 << 10) << one.name;
  }
}

TEST(GpuRegisters, AreThoseThatAreWrittenDown) {
  const std::string kept = THINWIRE_SOURCE_DIR "/docs/gpu_registers.txt";
  const std::string found = THINWIRE_BINARY_DIR "/gpu_registers.txt";
  const std::string now = table_of(all_kernels());
  std::ofstream(found) << now;
  const std::string written = read(kept);
  const std::string first = written.substr(0, written.find('\n'));
  ASSERT_NE(first, "") << kept << " is missing; cp " << found << " " << kept;
  if (first.find("nvcc " THINWIRE_NVCC_VERSION ",") == first.npos ||
      std::string(THINWIRE_CUDA_ARCHITECTURES) != "80-real 90") {
    GTEST_SKIP() << "the table is of another compiler, or of other architectures: " << first;
  }
  EXPECT_EQ(only_in(now, written), "") << "is new;\n"
                                       << only_in(written, now) << "was written down;\n"
                                       << "if that is meant: cp " << found << " " << kept;
}

TEST(GpuRegisters, ReportsAreRead) {
  std::istringstream words(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function "
      "'_ZN8thinwire7kernels12_GLOBAL__N_14stepILi8EEEvPf' for 'sm_80'\n"
      "ptxas info    : Function properties for _ZN8thinwire7kernels4stepEPf\n"
      "    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 1 barriers, 4160 bytes smem\n");
  const auto kernels = kernels_in(words);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(table_of(kernels).substr(table_of(kernels).rfind("kernels::")),
            "kernels::step<8> sm_80 32 16 8 4160\n");
}

}  // namespace
