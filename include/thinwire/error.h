// Three kinds of trouble, three ways to say so:
//
//   Error, UsageError  a caller's mistake or a broken machine: thrown; the text says what to do
//
//   Result<T>          bytes from outside that may be wrong: a value, or why they were refused
//
//   TW_CHECK           a promise of our own that does not hold: prints where and aborts
//
// Only main() and the I/O threads of transports catch. Destructors never throw.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace thinwire {

// The run cannot go on. Programs exit with code 1.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What was asked for makes no sense; nothing was started. Programs exit with code 2.
struct UsageError : Error {
  using Error::Error;
};

// The user has stopped it.
struct Interrupted : Error {
  using Error::Error;
};

// A value decoded from outside bytes, or why the bytes were refused.
template <class T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // implicit on purpose: `return update;`
  static Result refuse(std::string why) {
    Result result;
    result.why_ = std::move(why);
    return result;
  }

  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return value_.value(); }
  const T& operator*() const { return value_.value(); }
  T* operator->() { return &value_.value(); }
  const T* operator->() const { return &value_.value(); }
  const std::string& why() const { return why_; }  // empty when there is a value

 private:
  Result() = default;
  std::optional<T> value_;
  std::string why_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace thinwire

#define TW_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::thinwire::check_failed(#condition, __FILE__, __LINE__))
