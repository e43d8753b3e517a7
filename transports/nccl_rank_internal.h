// One rank over NCCL: how it is connected, how it waits, what goes wrong. The arithmetic is in
// nccl_operations.cc. Internal to transports/nccl*.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "thinwire/collective.h"
#include "thinwire/device.h"
#include "transports/nccl.h"
#include "transports/nccl_clique_internal.h"

namespace thinwire::near {

// Why something ended badly; turned into an Error once the others have been heard.
struct NcclTrouble {
  enum class Kind {
    refused,  // an argument: nothing has happened
    own,      // this rank is the cause
    differ,   // ranks do different things
    late,     // a deadline passed
    remote,   // NCCL says that another rank is the cause
    told      // another rank of this process has given up
  };
  Kind kind = Kind::own;
  std::string text = {};
};

// Memory on the device for what travels, from NCCL and registered with the communicator where it
// can do that, else any. All of it is there before the ranks are connected: to ask the driver for
// memory while another rank's kernel waits for this one may block until that kernel ends.
class NcclMemory {
 public:
  NcclMemory(NcclApi& api, Device device) : api_(api), device_(device) {}
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  void make(std::size_t count);  // unless it was made before
  void enroll(NcclComm* comm);
  void withdraw(NcclComm* comm);  // null: the communicator is gone
  Floats first(std::size_t count) const { return floats_.first(count); }
  // Something may still write into it: never freed.
  void leak();

 private:
  NcclApi& api_;
  const Device device_;
  Floats floats_;
  float* from_nccl_ = nullptr;
  void* handle_ = nullptr;
  FloatBuffer buffer_;
};

// What ranks tell each other over the control link, as floats without arithmetic.
struct NcclWord {
  std::array<char, 4> magic = {'T', 'W', 'N', '1'};
  std::uint32_t purpose = 0;  // 1: to be connected, 0: to find out what went wrong
  std::uint64_t number = 0;   // of the connection
  NcclStep step = {};
  std::uint32_t version = 0;
  std::uint32_t sums = 0;
  std::uint64_t piece = 0;
  std::int32_t device = 0;
  std::uint32_t unused = 0;
  std::array<char, 64> identity = {};
  std::array<char, 512> why = {};  // this rank gave up, ends with a zero
};
static_assert(sizeof(NcclWord) % sizeof(float) == 0);

class NcclRank {
 public:
  NcclRank(Clique& clique, Collective& control, NcclOptions options);
  ~NcclRank();

  int rank() const { return control_.rank(); }
  int size() const { return control_.size(); }
  Device device() const { return options_.device; }
  void rebuild();
  void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts);
  void all_gather(ConstFloats mine, Floats whole, Cuts cuts);
  void all_reduce_mean(Floats whole);
  void broadcast(Floats data, int root);
  void barrier();
  void all_to_all(ConstFloats whole, Floats parts, Cuts cuts);
  Traffic traffic() const { return traffic_; }

 private:
  using Clock = std::chrono::steady_clock;

  // nccl_rank.cc
  void connect();
  NcclWord own_word(std::uint32_t purpose) const;
  std::vector<NcclWord> meet(const NcclWord& mine);
  void compare(const std::vector<NcclWord>& words) const;
  NcclId share_id();
  bool all_here() const { return clique_.ranks_here() == size(); }

  // nccl_wait.cc
  void perform(NcclCall call, std::size_t length, std::uint64_t detail,
               const std::function<void()>& act);
  // Nothing goes wrong but as Error, after which the communicator is gone or as it was.
  void guarded(const std::function<void()>& act);
  [[noreturn]] void end_badly(const NcclTrouble& trouble);
  // What the steps of all ranks tell about a wait that was in vain.
  std::string found_in(const std::vector<NcclStep>& steps) const;
  std::string ask_others();
  void group(const std::function<void()>& calls);  // and waits for it
  void call(NcclResult result);                    // throws NcclTrouble
  [[noreturn]] void refuse(NcclResult result);
  void wait(std::chrono::milliseconds deadline);
  void wait() { wait(options_.deadline); }
  std::string doing() const;

  // nccl_operations.cc, of floats that lie where NCCL may use them
  void scatter(ConstFloats whole, Floats mine, Cuts cuts);
  void scatter_exact(ConstFloats whole, Floats mine, Cuts cuts);
  void scatter_fast(ConstFloats whole, Floats mine, Cuts cuts);
  void gather(ConstFloats mine, Floats whole, Cuts cuts);
  void exchange(ConstFloats whole, Floats parts, Cuts cuts);
  bool is_direct(ConstFloats floats) const {
    return !options_.staged && floats.device() == options_.device;
  }
  void scatter_staged(ConstFloats whole, Floats mine, Cuts cuts);
  void gather_staged(ConstFloats mine, Floats whole, Cuts cuts);
  void count(std::size_t floats_sent, std::size_t floats_received);
  NcclApi& api() const { return clique_.api(); }
  NcclComm* comm() const { return seat_.comm; }

  Clique& clique_;
  Collective& control_;
  const NcclOptions options_;
  Clique::Seat& seat_;
  const int exceptions_;  // that were under way
  NcclMemory scratch_;    // what others say, to be summed
  NcclMemory in_;
  NcclMemory out_;
  std::string last_failure_;
  std::uint64_t number_ = 0;  // of the connection
  std::uint64_t sequence_ = 0;
  Traffic traffic_;
};

}  // namespace thinwire::near
