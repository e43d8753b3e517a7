// Words between a rank and the store at rank 0, judged as bytes from outside.
#include <algorithm>
#include <cstring>

#include "transports/gloo_socket_internal.h"
#include "transports/gloo_store_internal.h"

namespace thinwire::near {
namespace {

constexpr std::size_t kGreetingFixed = 9;  // protocol and the length of the version
constexpr std::size_t kVersionMax = 64;

void put_u32(std::string& to, std::size_t value) {
  for (int shift = 0; shift < 32; shift += 8) to += static_cast<char>(value >> shift & 0xff);
}

std::size_t u32_at(const std::string& bytes, std::size_t at) {
  std::size_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

std::size_t u8_at(const std::string& bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

Bytes bytes_at(const std::string& bytes, std::size_t at, std::size_t size) {
  const ByteView view = std::as_bytes(std::span<const char>(bytes)).subspan(at, size);
  return Bytes(view.begin(), view.end());
}

bool plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == '+' || c == '~';
  });
}

}  // namespace

const char* version() { return THINWIRE_VERSION; }

std::string greeting() {
  const std::string own = version();
  return kProtocol + std::string(1, static_cast<char>(own.size())) + own;
}

std::string encode(const Request& request) {
  TW_CHECK(request.key.size() <= kKeyMax && request.value.size() <= kValueMax);
  std::string text(1, request.verb);
  text += static_cast<char>(request.key.size());
  text += request.key;
  put_u32(text, request.value.size());
  text.append(reinterpret_cast<const char*>(request.value.data()), request.value.size());
  return text;
}

std::string encode_answer(bool yes, ByteView value) {
  std::string text(1, yes ? 'Y' : 'N');
  put_u32(text, value.size());
  text.append(reinterpret_cast<const char*>(value.data()), value.size());
  return text;
}

Result<std::optional<std::string>> take_greeting(std::string& bytes) {
  using Taken = Result<std::optional<std::string>>;
  // The last two bytes of the protocol are its number and a line end.
  const std::size_t known = std::min(bytes.size(), sizeof kProtocol - 3);
  if (bytes.compare(0, known, kProtocol, known) != 0) return Taken::refuse("it is no thinwire");
  if (bytes.size() < kGreetingFixed) return std::optional<std::string>();
  const std::size_t size = u8_at(bytes, kGreetingFixed - 1);
  if (bytes.size() < kGreetingFixed + std::min(size, kVersionMax)) {
    return std::optional<std::string>();
  }
  const std::string other = bytes.substr(kGreetingFixed, size);
  if (size == 0 || size > kVersionMax || !plain(other)) return Taken::refuse("it is no thinwire");
  const bool speaks = bytes.compare(0, sizeof kProtocol - 1, kProtocol) == 0;
  if (!speaks && other == version()) {
    return Taken::refuse("it speaks another protocol; install the same build everywhere");
  }
  if (!speaks || other != version()) {
    return Taken::refuse("it runs thinwire " + other + ", this one is " + version() +
                         "; install the same version everywhere");
  }
  bytes.erase(0, kGreetingFixed + size);
  return std::optional(other);
}

Result<std::optional<Request>> take_request(std::string& bytes) {
  using Taken = Result<std::optional<Request>>;
  if (bytes.size() < 2) return std::optional<Request>();
  if (bytes[0] != 'S' && bytes[0] != 'G') return Taken::refuse("an unknown request");
  const std::size_t key = u8_at(bytes, 1);
  if (key == 0 || key > kKeyMax) return Taken::refuse("a key of " + std::to_string(key) + " bytes");
  if (bytes.size() < 2 + key + 4) return std::optional<Request>();
  const std::size_t value = u32_at(bytes, 2 + key);
  if (value > kValueMax) return Taken::refuse("a value of " + std::to_string(value) + " bytes");
  if (bytes.size() < 2 + key + 4 + value) return std::optional<Request>();
  Request request{bytes[0], bytes.substr(2, key), bytes_at(bytes, 2 + key + 4, value)};
  if (!plain(request.key)) return Taken::refuse("a key that is no plain name");
  bytes.erase(0, 2 + key + 4 + value);
  return std::optional(std::move(request));
}

Result<std::optional<Answer>> take_answer(std::string& bytes) {
  using Taken = Result<std::optional<Answer>>;
  if (bytes.empty()) return std::optional<Answer>();
  if (bytes[0] != 'Y' && bytes[0] != 'N') return Taken::refuse("an unknown answer");
  if (bytes.size() < 5) return std::optional<Answer>();
  const std::size_t value = u32_at(bytes, 1);
  if (value > kValueMax) return Taken::refuse("a value of " + std::to_string(value) + " bytes");
  if (bytes.size() < 5 + value) return std::optional<Answer>();
  Answer answer{bytes[0] == 'Y', bytes_at(bytes, 5, value)};
  bytes.erase(0, 5 + value);
  return std::optional(std::move(answer));
}

}  // namespace thinwire::near
