#include "apps/machine.h"

#include <ctime>
#include <fstream>
#include <thread>

namespace thinwire::app {
namespace {

std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

}  // namespace

std::string machine_text() {
  char date[16] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(date, sizeof date, "%Y-%m-%d", &utc);
  return processor() + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores, " +
         compiler() + ", " + date;
}

}  // namespace thinwire::app
