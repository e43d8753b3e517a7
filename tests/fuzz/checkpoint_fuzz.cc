// Any bytes as a file of tensors and as a manifest: refused, or whole.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "src/core/checkpoint_manifest.h"

using namespace thinwire;

namespace {

// The fuzzer's bytes behind a header length that fits, in a file without a name.
void as_tensors(const std::string& text, bool right_length) {
  const int file = ::memfd_create("fuzz", 0);
  std::string bytes = text;
  const std::size_t header = text.find('\n');
  if (right_length && header != text.npos) {
    bytes.clear();
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header >> (8 * i)));
    bytes += text.substr(0, header) + text.substr(header + 1);
  }
  TW_CHECK(::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const Result<TensorFile> opened = TensorFile::open("/proc/self/fd/" + std::to_string(file));
  if (opened) {
    std::uint64_t data = 0;
    for (const TensorFile::Entry& entry : opened->entries()) {
      TW_CHECK(entry.begin + entry.bytes <= bytes.size());
      data += entry.bytes;
    }
    TW_CHECK(data <= bytes.size() && opened->summary().bytes == bytes.size());
    opened->verify();
  }
  ::close(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(data + 1, data + size);
  as_tensors(text, (data[0] & 1) != 0);
  if (const Result<Manifest> manifest = parse_manifest(text)) {
    const Result<Manifest> again = parse_manifest(to_text(*manifest));
    TW_CHECK(again && again->files == manifest->files && again->step == manifest->step);
  }
  return 0;
}
