// The words between a rank and the store at rank 0, and the socket they go through. Each request is
// answered before the next one. Internal to transports/.
//
//   greeting, both ways   8 bytes kProtocol, u8 length, version of the library
//   request               u8 'S' or 'G', u8 length, key, u32 length, value (empty for 'G')
//   answer                u8 'Y' or 'N', u32 length, value (why, for a refused 'S')
//
// Numbers are little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/error.h"
#include "thinwire/types.h"

namespace thinwire::near {

struct Request {
  char verb = 'G';
  std::string key;
  Bytes value;
};

std::string greeting();
std::string encode(const Request& request);
std::string encode_answer(bool yes, ByteView value);

// What stands at the front of `bytes`; nothing while it is incomplete. What was read is taken off.
// A refusal says why the connection cannot go on.
Result<std::optional<std::string>> take_greeting(std::string& bytes);  // the other's version
Result<std::optional<Request>> take_request(std::string& bytes);

struct Answer {
  bool yes = false;
  Bytes value;
};
Result<std::optional<Answer>> take_answer(std::string& bytes);

}  // namespace thinwire::near
