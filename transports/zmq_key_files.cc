#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <system_error>

#include "thinwire/error.h"
#include "transports/descriptor_internal.h"
#include "transports/zmq_security_internal.h"

namespace thinwire {
namespace {

constexpr std::size_t kZ85Key = 40;               // characters
constexpr std::size_t kKeyFileMax = 4096;         // bytes; ours have 82
constexpr std::size_t kAllowListMax = 16u << 20;  // bytes

std::string reason(int code) { return std::generic_category().message(code); }

std::string read_file(const std::string& path, const std::string& what, std::size_t most,
                      mode_t forbidden) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) throw Error("cannot read " + what + " " + path + ": " + reason(errno));
  struct stat about {};
  if (::fstat(file.number(), &about) != 0 || !S_ISREG(about.st_mode)) {
    throw Error("cannot read " + what + " " + path + ": it is no ordinary file");
  }
  if ((about.st_mode & forbidden) != 0) {
    throw Error(what + " " + path + " can be read by others; run: chmod 600 " + path);
  }
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(file.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error("cannot read " + what + " " + path + ": " + reason(errno));
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > most) throw Error(what + " " + path + " is too long to be one");
  }
}

int write_all(int file, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(file, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    at += static_cast<std::size_t>(written);
  }
  return ::fsync(file) == 0 ? 0 : errno;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

bool is_zmq_key(const std::string& text) {
  std::array<std::uint8_t, 32> raw;
  return text.size() == kZ85Key && zmq_z85_decode(raw.data(), text.c_str()) != nullptr;
}

ZmqKeys make_zmq_keys() {
  std::array<char, kZ85Key + 1> public_key{};
  std::array<char, kZ85Key + 1> secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    throw Error("cannot make keys: this libzmq was built without CURVE");
  }
  return {public_key.data(), secret_key.data()};
}

void write_zmq_keys(const std::string& path, const ZmqKeys& keys) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file && errno == EEXIST) {
    throw Error("key file " + path + " exists and is never replaced; choose another name");
  }
  if (!file) throw Error("cannot write key file " + path + ": " + reason(errno));
  int trouble = write_all(file.number(), keys.public_key + "\n" + keys.secret_key + "\n");
  if (file.close() != 0 && trouble == 0) trouble = errno;
  if (trouble == 0) return;
  ::unlink(path.c_str());  // half a key is of no use
  throw Error("cannot write key file " + path + ": " + reason(trouble));
}

ZmqKeys read_zmq_keys(const std::string& path) {
  const std::vector<std::string> words = words_of(read_file(path, "key file", kKeyFileMax, 077));
  if (words.size() != 2 || !is_zmq_key(words[0]) || !is_zmq_key(words[1])) {
    throw Error("key file " + path +
                " is none: it has two lines, the public and the secret key, as `thinwire keygen` "
                "writes them");
  }
  std::array<char, kZ85Key + 1> derived{};
  if (zmq_curve_public(derived.data(), words[1].c_str()) != 0 || words[0] != derived.data()) {
    throw Error("key file " + path +
                ": the two keys do not belong together; make new ones with "
                "`thinwire keygen`");
  }
  return {words[0], words[1]};
}

std::vector<AllowedKey> parse_allow_list(const std::string& text, const std::string& origin) {
  std::vector<AllowedKey> allowed;
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::vector<std::string> words = words_of(line);
    if (words.empty() || words[0].front() == '#') continue;
    if (!is_zmq_key(words[0])) {
      throw Error(origin + ":" + std::to_string(number) +
                  ": no public key; each line has one of 40 characters, as `thinwire keygen` "
                  "prints it, and a name if wanted");
    }
    const bool named = words.size() > 1 && words[1].front() != '#';
    allowed.push_back({words[0], named ? words[1] : ""});
  }
  return allowed;
}

std::vector<AllowedKey> read_allow_list(const std::string& path) {
  return parse_allow_list(read_file(path, "allow-list", kAllowListMax, 0), path);
}

}  // namespace thinwire
