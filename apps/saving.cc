#include "apps/saving.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "thinwire/error.h"
#include "thinwire/hash.h"
#include "thinwire/log.h"

namespace thinwire::app {
namespace {

// A machine's own affair, or what may change between two halves of a run.
constexpr std::array<std::string_view, 18> kFree{
    "run.data",       "run.out",          "run.threads",      "run.device",   "run.link",
    "run.eval_every", "run.eval_windows", "run.sites",        "run.ranks",    "run.seeds",
    "run.methods",    "model.recompute",  "run.sharding",     "run.prefetch", "run.trace",
    "run.guard",      "run.spike",        "run.compare_every"};
constexpr const char* kSteps = "run.steps";

}  // namespace

void check_saving(const SaveCommand& command, const RunOptions& options) {
  if (command.dir.empty()) {
    if (command.resume) throw UsageError("--resume needs --save DIR, where the run was saved");
    if (command.every > 0) throw UsageError("--save-every needs --save DIR");
  } else if (options.seeds != 1) {
    throw UsageError("--save keeps one run; leave --seeds away");
  }
  if (command.until > options.steps) {
    throw UsageError(fmt::format("--until {} is beyond the last step, {}; see --steps",
                                 command.until, options.steps));
  }
  if (command.dir.empty() && options.guard.policy == GuardPolicy::roll_back)
    throw UsageError("--guard rollback needs --save DIR, where it goes back to");
  if (command.keep < 1) throw UsageError("--keep must be 1 or more");
  if (command.residuals != "fold" && command.residuals != "drop") {
    throw UsageError("--residuals is fold or drop, not '" + command.residuals + "'");
  }
}

RunSettings settings_to_keep(const RunOptions& options, const Text& text) {
  RunSettings settings;
  std::string section;
  std::istringstream lines(options.config);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("[")) section = line.substr(1, line.find(']') - 1);
    // However the method is written, so that a setting that differs is named and not missing.
    if (section.starts_with("optimizer.")) section = "optimizer." + options.methods.front().name;
    const std::size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    const std::string name = section + "." + line.substr(0, equals);
    if (std::ranges::find(kFree, name) == kFree.end()) settings[name] = line.substr(equals + 3);
  }
  settings["method"] = options.methods.front().name;
  const ByteView bytes = std::as_bytes(text.bytes());
  settings["text"] = fmt::format("{} bytes, hash {:016x}", bytes.size(), hash64(bytes));
  return settings;
}

Saving::Saving(const SaveCommand& command, const RunOptions& options, const Text& text,
               int saved_sites, std::optional<int> only_rank)
    : dir_(command.dir),
      every_(command.every > 0 ? command.every : static_cast<std::uint64_t>(options.eval_every)),
      saved_sites_(saved_sites),
      sites_(options.sites),
      ranks_(options.inside.sharding == Sharding::none ? 1 : options.ranks),
      residuals_(command.residuals == "drop" ? Residuals::drop : Residuals::fold) {
  const RunSettings settings = settings_to_keep(options, text);
  writing_ = {.dir = dir_,
              .run = settings,
              .sites = options.sites,
              .saved_sites = saved_sites,
              .ranks = ranks_,
              .first_rank = only_rank.value_or(0),
              .ranks_here = only_rank ? 1 : ranks_,
              .keep_last = command.keep,
              .keep_every = command.keep_every};
  // Holds the directory before a look at what is in it.
  if (only_rank.value_or(0) < ranks_) writer_.emplace(writing_);
  const FoundCheckpoint found = newest_checkpoint(dir_);
  if (!command.resume) {
    if (!list_checkpoints(dir_).empty()) {
      throw UsageError("--save " + dir_ + " holds a run already; give --resume to go on with it, " +
                       "or another directory");
    }
    return;
  }
  for (const std::string& skipped : found.skipped) log_warn("cannot use " + skipped);
  if (!found.checkpoint) {
    if (!found.skipped.empty()) {
      throw UsageError("--save " + dir_ + " holds no checkpoint that can be used; choose another " +
                       "directory, or move what is there away to begin anew");
    }
    log_info("nothing is saved in " + dir_ + " yet; the run begins");
    return;
  }
  RunSettings saved = found.checkpoint->run();
  RunSettings here = settings;
  if (saved[kSteps] != here[kSteps]) {
    log_warn("the schedule spans " + here[kSteps] + " steps now, " + saved[kSteps] + " before");
  }
  for (const char* of_schedule : {kSteps, "schedule.warmup"}) {
    saved.erase(of_schedule);
    here.erase(of_schedule);
  }
  if (const std::string why = difference(saved, here); !why.empty()) {
    throw UsageError("--save " + dir_ + " holds another run: " + why +
                     "; give the same settings or another directory");
  }
  found_ = found.checkpoint;
  log_info(fmt::format("goes on at step {} from {}", found_->step(), found_->path().string()));
  if (found_->step() > options.steps) {
    throw UsageError(
        fmt::format("the run in --save {} is at step {} already; give --steps {} or more", dir_,
                    found_->step(), found_->step()));
  }
  if (command.until > 0 && command.until < found_->step()) {
    throw UsageError(fmt::format("--until {} is behind step {}, where the run goes on",
                                 command.until, found_->step()));
  }
  if (found_->sites() != sites_) {
    log_warn(
        fmt::format("saved with {} sites, {} now: {}", found_->sites(), sites_, about_residuals()));
  }
}

// What becomes of what other sites owe.
const char* Saving::about_residuals() const {
  const bool drop = residuals_ == Residuals::drop;
  if (saved_sites_ < sites_) return "each site goes on with its own residual, new ones owe nothing";
  if (found_->sites() > sites_) {
    return drop ? "residuals of those that are gone are lost (--residuals drop)"
                : "residuals of those that are gone are folded into the others";
  }
  return drop ? "the new ones owe nothing (--residuals drop)"
              : "the new ones owe what the others owe in the mean";
}

// What some ranks have given is of no use any more.
std::uint64_t Saving::roll_back() {
  writer_.reset();
  writer_.emplace(writing_);
  found_ = newest_checkpoint(dir_).checkpoint;
  return found_ ? found_->step() : 0;
}

Progress Saving::load(int site, Shard& shard, Optimizer& optimizer) const {
  return found_->load(
      {.site = site, .saved_sites = saved_sites_, .sites = sites_, .residuals = residuals_}, shard,
      optimizer);
}

void Saving::save(Seat seat, const Trainer& trainer, Bytes link) {
  if (seat.rank >= ranks_) return;
  writer_->save(seat, trainer, std::move(link));
}

std::vector<Bytes> Saving::rounds() const {
  std::vector<Bytes> all;
  for (int rank = 0; found_ && rank < ranks_; ++rank)
    all.push_back(found_->link({0, rank}, ranks_));
  return all;
}

void Saving::give_up() { writer_->give_up(); }

std::string Saving::finish() {
  writer_->flush();
  const std::optional<std::uint64_t> step = writer_->published();
  if (writing_.first_rank > 0) return "rank 0 of this site says what is saved";
  if (step) return fmt::format("saved at step {} in {}; --resume goes on from there", *step, dir_);
  if (!found_) return "nothing was saved yet";
  return fmt::format("nothing new was saved; --resume goes on from step {} in {}", found_->step(),
                     dir_);
}

}  // namespace thinwire::app
