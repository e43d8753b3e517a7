// Any bytes: what ranks say to the store at rank 0 is refused, incomplete, or taken off the front
// and said again to the same bytes.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "transports/gloo_roll_internal.h"
#include "transports/gloo_socket_internal.h"

using namespace thinwire;
using namespace thinwire::near;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(reinterpret_cast<const char*>(data), size);
  std::string bytes = all;
  if (const auto taken = take_greeting(bytes); taken && *taken) {
    if (greeting() + bytes != all) std::abort();
  }
  bytes = all;
  if (const auto taken = take_request(bytes); taken && *taken) {
    if (encode(**taken) + bytes != all) std::abort();
  }
  bytes = all;
  if (const auto taken = take_answer(bytes); taken && *taken) {
    if (encode_answer((*taken)->yes, (*taken)->value) + bytes != all) std::abort();
  }
  const ByteView view = std::as_bytes(std::span<const std::uint8_t>(data, size));
  if (const auto hello = decode_hello(view)) {
    const Bytes again = encode(*hello);
    if (!std::equal(again.begin(), again.end(), view.begin(), view.end())) std::abort();
  }
  return 0;
}
