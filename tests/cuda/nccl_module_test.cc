// NCCL is loaded on demand: the module answers, and the program itself does not depend on it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

std::string needed_libraries(const std::string& file) {
  const std::string command = std::string(THINWIRE_READELF) + " -d '" + file + "'";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  char part[4096];
  while (pipe != nullptr && std::fgets(part, sizeof part, pipe.get()) != nullptr) {
    if (const std::string line = part; line.find("(NEEDED)") != line.npos) text += line;
  }
  return text;
}

TEST(NcclModule, AnswersWhenLoadedOnDemand) {
  void* module = dlopen(THINWIRE_NCCL_PROBE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  auto* version = reinterpret_cast<int (*)()>(dlsym(module, "nccl_probe_version"));
  ASSERT_NE(version, nullptr) << dlerror();
  std::printf("NCCL %d\n", version());
  EXPECT_GE(version(), 20000);
  dlclose(module);
}

TEST(NcclModule, TheProgramStartsWithoutNcclAndCuda) {
  const std::string needed = needed_libraries(THINWIRE_PROGRAM);
  ASSERT_NE(needed.find("libc.so"), needed.npos) << "readelf read nothing from " THINWIRE_PROGRAM;
  EXPECT_EQ(needed.find("libnccl"), needed.npos) << needed;
  EXPECT_EQ(needed.find("libcuda"), needed.npos) << needed;
  EXPECT_EQ(needed.find("libcublas"), needed.npos) << needed;
  EXPECT_NE(needed_libraries(THINWIRE_NCCL_PROBE).find("libnccl"), needed.npos);
}

}  // namespace
