// Where ranks leave words for each other until they are connected: keys with small values, in a
// directory or at rank 0. Internal to transports/.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "thinwire/types.h"

namespace thinwire::near {

// Of the words themselves. A process that speaks another one is refused with both versions.
inline constexpr char kProtocol[] = "TWNEAR1\n";  // 8 bytes
inline constexpr std::size_t kKeyMax = 128;       // bytes
inline constexpr std::size_t kValueMax = 1u << 20;
inline constexpr std::size_t kKeysMax = 1u << 18;
inline constexpr std::size_t kStoreMax = 256u << 20;

const char* version();  // of this library

// How long a wait may take, and the flag that ends it.
class Patience {
 public:
  Patience(std::chrono::milliseconds most, const std::atomic<bool>* stop)
      : end_(std::chrono::steady_clock::now() + most), stop_(stop) {}

  bool over() const { return left_ms() <= 0; }
  // The same, ending sooner.
  Patience at_most(std::chrono::milliseconds most) const;
  const std::atomic<bool>* stop() const { return stop_; }
  int left_ms() const;
  // Sleeps a moment; throws Interrupted when the flag is set.
  void pause(std::chrono::milliseconds moment) const;
  void check() const;

 private:
  std::chrono::steady_clock::time_point end_;
  const std::atomic<bool>* stop_;
};

class KeyStore {
 public:
  virtual ~KeyStore() = default;
  // Letters, digits, '.', '-', '_'. A second value takes the place of the first.
  virtual void set(const std::string& key, const Bytes& value) = 0;
  virtual std::optional<Bytes> get(const std::string& key) = 0;
  virtual std::string place() const = 0;  // for messages
  // Nothing of earlier runs can be in it.
  virtual bool is_new() const { return false; }
  // The address of this machine on the way to rank 0; empty when that is not known.
  virtual std::string own_address() const { return ""; }
};

// Throws UsageError where the path is no directory that can be written into.
std::unique_ptr<KeyStore> open_directory(const std::string& path);

// Keeps dialling until the patience is over, then throws Error that says what was the matter.
std::unique_ptr<KeyStore> dial_store(const std::string& host, int port, const Patience& patience);

// Serves a store until it goes, with a thread of its own.
class StoreServer {
 public:
  explicit StoreServer(int port);  // throws Error when the port is in use
  ~StoreServer();
  int port() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace thinwire::near
