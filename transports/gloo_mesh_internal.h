// Connections of a group of ranks, each to each. Gloo's own way to open them names no rank when one
// is missing; this one does. Internal to transports/gloo*.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "transports/gloo_store_internal.h"

namespace thinwire::near {

struct MeshOptions {
  int member = 0;
  int size = 1;
  std::string prefix = {};               // of its keys in the store: never used before
  std::function<std::string(int)> name;  // of a member, for messages
};

class Mesh final : public gloo::Context {
 public:
  // Throws Error naming who did not come or could not be reached.
  Mesh(const MeshOptions& options, const std::shared_ptr<gloo::transport::Device>& device,
       KeyStore& store, const Patience& patience);

  std::unique_ptr<gloo::transport::UnboundBuffer> buffer(const void* data, std::size_t bytes);
};

// Throws UsageError when there is no such interface or address on this machine.
std::shared_ptr<gloo::transport::Device> open_device(const std::string& interface,
                                                     const std::string& address);

}  // namespace thinwire::near
