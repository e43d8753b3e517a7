// Ranks with a device each: the near link over NCCL, between ranks that are threads of one process
// or processes of their own, on one machine or several that trust each other.
//
// NCCL is loaded when the first NcclClique is made; a program that makes none does not need it.
// Floats on the rank's own device are used where they lie, others go through buffers there.
//
// What goes wrong: every call ends within its deadline. NCCL cannot say who is missing and hangs
// where ranks call different operations; so ranks tell each other what they are doing, by memory
// where they are threads, else over `control` once something has gone wrong. A rank that fails has
// the communicators of its process aborted, all as one and once. All later calls throw the same
// Error, until all ranks call rebuild(). Only an argument that NCCL refuses changes nothing.
//
// An abort may hang too. After its own deadline the communicator is left as it is, and the Error
// says that the process has to end.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "thinwire/collective.h"

namespace thinwire {

class NcclApi;
namespace near {
class Clique;
class NcclRank;
}  // namespace near

// exact: each value is summed in member order by its owner, with the bits of every other near link.
// fast: NCCL sums, in an order of its own. The ranks of a site still hold equal bits, but these
// depend on the number of ranks, the machine and NCCL's version: right for gradients, which are
// private to a site, and for nothing that sites must have in common.
enum class NcclSums { exact, fast };

struct NcclOptions {
  std::string name = "near";                          // begins what it says
  Device device = {};                                 // of this rank alone
  std::chrono::milliseconds connect_timeout{30'000};  // until the ranks are connected
  std::chrono::milliseconds deadline{120'000};        // of every wait for the others
  std::chrono::milliseconds abort_deadline{10'000};   // of leaving, and of giving up
  // Floats of a rank's part that travel at a time; 12 times as many bytes a rank are kept for them.
  std::size_t piece = std::size_t{1} << 20;
  NcclSums sums = NcclSums::exact;
  // Through buffers registered with NCCL also where floats lie on the device.
  bool staged = false;
};

// The communicators of one site in this process: of all its ranks where they are threads, of one
// where they are processes. Outlives its NcclNears; safe from any thread.
class NcclClique {
 public:
  // Throws UsageError that says what to install where NCCL is missing.
  explicit NcclClique(int ranks_here);
  NcclClique(int ranks_here, std::shared_ptr<NcclApi> api);  // for tests
  ~NcclClique();

  std::string version() const;  // of NCCL, as 2.28.9
  // A rank that is no NcclNear yet gives up: every wait, now and later, throws Error with this
  // text.
  void fail(const std::string& why);

 private:
  friend class NcclNear;
  std::unique_ptr<near::Clique> clique_;
};

// All ranks make theirs at the same time. One thread at a time.
class NcclNear final : public Collective {
 public:
  // `control` has the same members in the same order, and outlives this. Its deadline bounds how
  // long a failure waits to hear from the others; rebuild() needs one above `deadline`. Throws
  // UsageError where ranks do not fit together (two on one device, different versions or options),
  // else Error.
  NcclNear(NcclClique& clique, Collective& control, const NcclOptions& options);
  // Waits for the others to leave, at most abort_deadline.
  ~NcclNear() override;

  // Connects all ranks anew, after a failure or without one.
  void rebuild();

  int rank() const override;
  int size() const override;
  // May floats lie there without a detour? The host's may too.
  bool carries(Device device) const override;
  void reduce_scatter_mean(ConstFloats whole, Floats mine, Cuts cuts) override;
  void all_gather(ConstFloats mine, Floats whole, Cuts cuts) override;
  void all_reduce_mean(Floats whole) override;
  void broadcast(Floats data, int root) override;
  void barrier() override;
  void all_to_all(ConstFloats whole, Floats parts, Cuts cuts) override;
  Traffic traffic() const override;

 private:
  std::unique_ptr<near::NcclRank> rank_;
};

}  // namespace thinwire
