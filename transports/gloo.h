// Ranks as processes: the near link over Gloo and TCP, between the ranks of one site on a network
// that they trust (nothing is encrypted). It also carries the all-reduce baseline between sites.
//
// A process opens one GlooWorld, which returns when all ranks have met, and then groups of ranks,
// each a Collective with connections of its own. Means are summed in member order, each value once:
// the bits are those of loopback.
//
// What goes wrong: every operation begins with a small message to all members, so that different
// operations or sizes are an Error on all of them, with both values. Every wait has a deadline,
// which begins anew with each piece of data that comes. Whoever misses a member tells the others
// before it throws, so that all name the same one and the operation it was missed in. A group that
// has failed stays so; those who are left open another one under a name not used before.
//
// Thread rule: a world and its groups belong to one thread; groups must not outlive their world.
// The process must not die of SIGPIPE: opening a world has it ignored where nobody handles it.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/collective.h"

namespace thinwire {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // Where ranks meet: a directory that all of them see, or the address of rank 0, which listens.
  // Files of earlier runs in the directory do no harm.
  std::string directory = {};
  std::string master = {};  // name or IP address
  int master_port = 0;
  // The network to use, as in "eth0"; empty: the one on which rank 0 is reached, or the loopback
  // interface where all ranks of a directory are on one machine.
  std::string interface = {};
  std::chrono::milliseconds connect_timeout{30'000};  // until all ranks are there
  std::chrono::milliseconds deadline{120'000};        // of every wait in an operation
  // What all ranks must have in common, as "name = value" lines; the first difference is named.
  std::string agreed = {};
  const std::atomic<bool>* stop = nullptr;  // set: whoever waits to meet throws Interrupted
};

class GlooWorld {
 public:
  // Throws UsageError where options make no sense, Error naming who did not come or what differs.
  explicit GlooWorld(const GlooOptions& options);
  ~GlooWorld();

  int rank() const;
  int size() const;

  // A collective among these ranks, ascending, this one among them; all of them call this with the
  // same name and members. Its messages begin with the name and count ranks of the world. After a
  // failure: a new name and the ranks that are left, of which rank 0 must be one where it listens.
  // `deadline`: another one than the world's.
  std::unique_ptr<Collective> group(const std::string& name, const std::vector<int>& members,
                                    std::optional<std::chrono::milliseconds> deadline = {});

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace thinwire
