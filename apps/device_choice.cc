#include "apps/device_choice.h"

#include <charconv>

#include "thinwire/device.h"
#include "thinwire/error.h"

namespace thinwire::app {
namespace {

constexpr int kDevicesMax = 1024;

int read_index(const std::string& text) {
  int index = -1;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, index);
  if (error != std::errc() || last != end || index < 0 || index > kDevicesMax) {
    throw UsageError("--device cuda:" + text + ": a device is a number from 0 on, as in cuda:0");
  }
  return index;
}

}  // namespace

Device DeviceChoice::of(std::size_t rank) const {
  if (!cuda) return {};
  if (index) return Device::cuda(*index);
  return Device::cuda(static_cast<int>(rank % static_cast<std::size_t>(cuda_devices())));
}

std::string resolved_device(const std::string& text) {
  if (text != "auto") return text;
  return cuda_problem().empty() ? "cuda" : "cpu";
}

DeviceChoice parse_device(const std::string& text) {
  if (text == "cpu") return {};
  if (text == "auto") return parse_device(resolved_device(text));
  DeviceChoice choice{.cuda = true};
  if (text.starts_with("cuda:")) {
    choice.index = read_index(text.substr(5));
  } else if (text != "cuda") {
    throw UsageError("--device must be auto, cpu, cuda or cuda:N, got '" + text + "'");
  }
  try {
    require(Device::cuda(choice.index.value_or(0)));
  } catch (const UsageError& error) {
    throw UsageError("--device " + text + ": " + error.what());
  }
  return choice;
}

}  // namespace thinwire::app
