#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "thinwire/error.h"
#include "transports/gloo_store_internal.h"

namespace thinwire::near {
namespace {

namespace fs = std::filesystem;

class Directory final : public KeyStore {
 public:
  explicit Directory(fs::path path) : path_(std::move(path)) {
    // Process ids of two machines may be the same.
    std::random_device dice;
    own_ = std::to_string(dice()) + "-" + std::to_string(dice());
  }

  // Whole or not at all, also for readers on another machine.
  void set(const std::string& key, const Bytes& value) override {
    const fs::path whole = path_ / key;
    const fs::path part = path_ / ("." + key + "." + own_);
    {
      std::ofstream out(part, std::ios::binary);
      out.write(reinterpret_cast<const char*>(value.data()),
                static_cast<std::streamsize>(value.size()));
      if (!out.flush()) throw Error("cannot write " + part.string() + "; is the disk full?");
    }
    std::error_code error;
    fs::rename(part, whole, error);
    if (error) throw Error("cannot write " + whole.string() + ": " + error.message());
  }

  std::optional<Bytes> get(const std::string& key) override {
    std::ifstream in(path_ / key, std::ios::binary);
    if (!in) return std::nullopt;
    std::string text(std::istreambuf_iterator<char>(in), {});
    if (text.size() > kValueMax) return std::nullopt;
    const ByteView bytes = std::as_bytes(std::span<const char>(text));
    return Bytes(bytes.begin(), bytes.end());
  }

  std::string place() const override { return path_.string(); }

 private:
  const fs::path path_;
  std::string own_;  // in the names of files that are not whole yet
};

}  // namespace

int Patience::left_ms() const {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const auto left = end_ - std::chrono::steady_clock::now();
  return static_cast<int>(duration_cast<milliseconds>(left).count());
}

Patience Patience::at_most(std::chrono::milliseconds most) const {
  return {std::min(most, std::chrono::milliseconds(std::max(0, left_ms()))), stop_};
}

void Patience::check() const {
  if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
    throw Interrupted("stopped; nothing was written");
  }
}

void Patience::pause(std::chrono::milliseconds moment) const {
  check();
  std::this_thread::sleep_for(moment);
}

std::unique_ptr<KeyStore> open_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!fs::is_directory(path, error)) {
    throw UsageError("ranks cannot meet in " + path + ": it is no directory and none can be made");
  }
  if (::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    throw UsageError("ranks cannot meet in " + path + ": it cannot be written into");
  }
  return std::make_unique<Directory>(path);
}

}  // namespace thinwire::near
