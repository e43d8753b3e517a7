// Saves a run's state: copied at a step's border, written in the background, published whole or not
// at all.
//
//   CheckpointWriter writer({.dir = "saved", .run = settings, .sites = 4, .saved_sites = 4});
//   writer.save({.site = site, .rank = rank}, trainer);        // every rank, after the same step
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "thinwire/checkpoint.h"
#include "thinwire/trainer.h"

namespace thinwire {

struct CheckpointOptions {
  std::filesystem::path dir;
  RunSettings run = {};  // what must be the same to go on, by name
  int sites = 1;         // of the run
  int saved_sites = 1;   // whose state goes into `dir`: all of them, or the one played here
  int ranks = 1;         // of a site
  // The ranks of this process; that of rank 0 publishes what all have written.
  int first_rank = 0;
  int ranks_here = 1;
  int keep_last = 3;             // older ones are deleted
  std::uint64_t keep_every = 0;  // but not those of every so many steps; 0: none
};

// Thread-safe. A failure to write is logged; the checkpoints before it stay.
class CheckpointWriter {
 public:
  // Creates the directory, holds it until the end, and clears what an earlier run left unfinished.
  // Throws UsageError when it cannot be written into or another run holds it.
  explicit CheckpointWriter(CheckpointOptions options);
  ~CheckpointWriter();  // writes what all seats have given

  // Copies the seat's state and returns; all seats give that of the same step. Blocks until the one
  // before is written. `link` goes with it, unread. False: the trainer is in the middle of a step
  // that cannot be gone on from.
  bool save(Seat seat, const Trainer& trainer, Bytes link = {});
  // Waits for the disk. Throws Error when the last checkpoint was not written.
  void flush();
  // Some seat will give nothing more: whoever waits in save() comes back with false, now and later.
  void give_up();
  // Step of the newest that this writer has safe on the disk.
  std::optional<std::uint64_t> published() const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace thinwire
