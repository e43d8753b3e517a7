// Any bytes: decode refuses, or gives a message without fault of which these are the only bytes.
#include <cstdint>
#include <span>

#include "thinwire/error.h"
#include "transports/hub_messages_internal.h"

using namespace thinwire;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes = std::as_bytes(std::span(data, size));
  const auto message = hub::decode(bytes);
  if (!message) {
    TW_CHECK(!message.why().empty());
    return 0;
  }
  TW_CHECK(hub::fault(*message).empty());
  TW_CHECK(hub::encoded_size(*message) == size);
  TW_CHECK(hub::encode(*message) == Bytes(bytes.begin(), bytes.end()));
  return 0;
}
