#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <tuple>

#include "transports/shared_bytes_internal.h"

namespace thinwire::hub {
namespace {

constexpr std::size_t kFirstCapacity = 1 << 20;
constexpr std::size_t kMapped = 256 << 10;     // what is shorter is malloc's affair
constexpr std::size_t kSparesMax = 256 << 20;  // bytes

bool mapped(std::size_t capacity) { return capacity >= kMapped; }

// Large pages: most of what long memory costs at first use is the number of its pages.
std::byte* grow(std::byte* data, std::size_t from, std::size_t to) {
  void* grown = MAP_FAILED;
  if (!mapped(to)) {
    grown = std::realloc(data, to);
    if (grown == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(grown);
  }
  TW_CHECK(data == nullptr || mapped(from));
  grown = data == nullptr
              ? ::mmap(nullptr, to, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
              : ::mremap(data, from, to, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) throw std::bad_alloc();
  if (to >= kFirstCapacity) static_cast<void>(::madvise(grown, to, MADV_HUGEPAGE));  // a wish
  return static_cast<std::byte*>(grown);
}

// Memory that nobody uses at the moment.
class Spares {
 public:
  // Nothing, or not much more than wanted: what is kept is counted by its size.
  std::pair<std::byte*, std::size_t> take(std::size_t wanted) {
    std::lock_guard lock(mutex_);
    const auto found = blocks_.lower_bound(wanted);
    if (found == blocks_.end() || found->first - wanted > wanted / 8) return {};
    const auto [capacity, data] = *found;
    blocks_.erase(found);
    bytes_ -= capacity;
    return {data, capacity};
  }
  // False: there are enough.
  bool give(std::byte* data, std::size_t capacity) {
    if (!mapped(capacity)) return false;
    std::lock_guard lock(mutex_);
    if (capacity > kSparesMax - bytes_) return false;
    blocks_.emplace(capacity, data);
    bytes_ += capacity;
    return true;
  }

 private:
  std::mutex mutex_;
  std::multimap<std::size_t, std::byte*> blocks_;  // by capacity
  std::size_t bytes_ = 0;
};

Spares& spares() {
  static Spares& all = *new Spares;  // threads of ZeroMQ may outlive what is static
  return all;
}

}  // namespace

GrowingBytes::~GrowingBytes() {
  if (data_ == nullptr || spares().give(data_, capacity_)) return;
  mapped(capacity_) ? static_cast<void>(::munmap(data_, capacity_)) : std::free(data_);
}

void GrowingBytes::append(ByteView bytes, std::size_t final_size) {
  TW_CHECK(bytes.size() <= final_size - size_);
  if (data_ == nullptr && mapped(final_size))
    std::tie(data_, capacity_) = spares().take(final_size);
  if (bytes.size() > capacity_ - size_) {
    const std::size_t grown = std::max({2 * capacity_, size_ + bytes.size(), kFirstCapacity});
    const std::size_t capacity = std::min(grown, final_size);
    data_ = grow(data_, capacity_, capacity);
    capacity_ = capacity;
  }
  if (!bytes.empty()) std::memcpy(data_ + size_, bytes.data(), bytes.size());
  size_ += bytes.size();
}

void Encoded::read(std::size_t offset, std::size_t count,
                   const std::function<void(ByteView)>& take) const {
  TW_CHECK(offset <= size_ && count <= size_ - offset);
  for (const SharedBytes& run : runs_) {
    const std::size_t here = std::min(count, run.size() - std::min(offset, run.size()));
    if (here > 0) take(ByteView(run).subspan(offset, here));
    offset -= std::min(offset, run.size());
    count -= here;
  }
}

Bytes Encoded::joined() const {
  Bytes bytes;
  bytes.reserve(size_);
  read(0, size_, [&](ByteView run) { bytes.insert(bytes.end(), run.begin(), run.end()); });
  return bytes;
}

}  // namespace thinwire::hub
