#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include <cstring>
#include <vector>

#include "thinwire/error.h"
#include "transports/gloo_mesh_internal.h"

namespace thinwire::near {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{2};

// Addresses of one member's ends, in the order of members, its own left out: u32 length, bytes.
void put(Bytes& to, const std::vector<char>& address) {
  const auto size = static_cast<std::uint32_t>(address.size());
  const std::size_t at = to.size();
  to.resize(at + sizeof size + size);
  std::memcpy(to.data() + at, &size, sizeof size);
  std::memcpy(to.data() + at + sizeof size, address.data(), size);
}

// The address at number `at`; empty when the bytes are not such a list.
std::vector<char> address_at(ByteView list, int at) {
  constexpr std::uint32_t kMost = 1024;
  for (;; --at) {
    std::uint32_t size = 0;
    if (list.size() < sizeof size) return {};
    std::memcpy(&size, list.data(), sizeof size);
    list = list.subspan(sizeof size);
    if (size > kMost || size > list.size()) return {};
    if (at == 0) {
      const char* first = reinterpret_cast<const char*>(list.data());
      return {first, first + size};
    }
    list = list.subspan(size);
  }
}

Bytes wait_for(KeyStore& store, const std::string& key, const std::string& who,
               const Patience& patience) {
  while (true) {
    if (auto found = store.get(key)) return std::move(*found);
    if (patience.over()) throw Error(who + " did not come to " + store.place() + " in time");
    patience.pause(kPause);
  }
}

}  // namespace

Mesh::Mesh(const MeshOptions& options, const std::shared_ptr<gloo::transport::Device>& device,
           KeyStore& store, const Patience& patience)
    : gloo::Context(options.member, options.size) {
  const auto key = [&](int member) { return options.prefix + "." + std::to_string(member); };
  device_ = device;
  transportContext_ = device->createContext(options.member, options.size);
  transportContext_->setTimeout(milliseconds(std::max(1, patience.left_ms())));
  Bytes own;
  try {
    for (int other = 0; other < options.size; ++other) {
      if (other == options.member) continue;
      put(own, transportContext_->createPair(other)->address().bytes());
    }
  } catch (const std::exception& error) {
    throw Error("cannot open connections to " + std::to_string(options.size - 1) +
                " ranks: " + error.what() + "; has the process enough descriptors (ulimit -n)?");
  }
  store.set(key(options.member), own);
  for (int other = 0; other < options.size; ++other) {
    if (other == options.member) continue;
    const std::string who = options.name(other);
    const Bytes theirs = wait_for(store, key(other), who, patience);
    const int at = options.member < other ? options.member : options.member - 1;
    const std::vector<char> address = address_at(theirs, at);
    if (address.empty()) throw Error(who + " has left no address at " + store.place());
    try {
      transportContext_->getPair(other)->connect(address);
    } catch (const std::exception& error) {
      throw Error(who + " cannot be reached: " + error.what() +
                  "; is the network the right one, and open between the ranks?");
    }
  }
}

std::unique_ptr<gloo::transport::UnboundBuffer> Mesh::buffer(const void* data, std::size_t bytes) {
  // Gloo knows one kind of buffer; those that are only sent from are not written to.
  return createUnboundBuffer(const_cast<void*>(data), bytes);
}

std::shared_ptr<gloo::transport::Device> open_device(const std::string& interface,
                                                     const std::string& address) {
  gloo::transport::tcp::attr attributes;
  if (!interface.empty()) {
    attributes.iface = interface;
  } else {
    attributes.hostname = address;
  }
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    throw UsageError("ranks cannot be reached through " +
                     (interface.empty() ? "address " + address : "interface " + interface) + ": " +
                     error.what() + "; give the name of a network of this machine, as in eth0");
  }
}

}  // namespace thinwire::near
