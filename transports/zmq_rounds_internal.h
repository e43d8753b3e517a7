// What a site holds of the rounds: its own frames until they are no longer needed, results until
// all ranks have collected them, and after that the last closed rounds, for a hub that was
// restarted and knows nothing. It also says what must be sent (again). No sockets, no clock, no
// locks: the caller passes the time and guards it. Internal to transports/.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "transports/hub_messages_internal.h"

namespace thinwire::hub {

// As RoundResult.
struct SharedResult {
  std::vector<SharedFrame> frames;
  std::vector<int> absent;
};

struct SiteRoundsOptions {
  std::uint32_t parts = 1;       // ranks of this site
  double again_s = 10.0;         // a post or question without an answer is repeated
  std::size_t rounds_kept = 64;  // of each kind, after all parts have collected them
  std::size_t bytes_kept = std::size_t{1} << 30;  // of those; the oldest go first
};

class SiteRounds {
 public:
  explicit SiteRounds(SiteRoundsOptions options) : options_(options), traffic_(2 * options.parts) {}

  // The results of rounds before are in the state that the ranks begin with.
  void begin_at(std::uint64_t round) {
    if (round > 0) first_ = round;
  }

  // ---- the ranks' side. Slots are matched by kind, number, phase and part.

  void post(const Slot& slot, SharedBytes frame);  // throws Error when far too many rounds are open
  void wait_for(const Slot& slot);                 // somebody is about to wait for it
  bool ready(const Slot& slot) const;              // all parts of the round have their results
  SharedResult collect(const Slot& slot);          // of a round that is ready
  bool missed(const Slot& slot) const;
  bool too_old(const Slot& slot) const;  // collected by all and no longer kept
  Traffic traffic(Kind kind, std::uint32_t part) const;

  // The results of part `part` of the last closed rounds, from `from` on.
  std::vector<Bundle> results(std::uint32_t part, std::uint64_t from) const;
  // A result from before this process, for sites that lack it.
  void restore(Bundle bundle);
  void forget_halves();  // restored for some parts alone

  // ---- the hub's side

  // Everything is to be said again. Another hub may not know of all that an earlier one closed.
  void welcome(std::uint32_t site, std::uint64_t next_round, bool other_hub);
  // A state was taken over that lacks the results from round `first` on: nothing that was here
  // counts any more.
  void restart(std::uint32_t site, std::uint64_t first, std::uint64_t next_round);
  void heard_open(std::uint64_t next_round);  // the hub has closed all rounds before
  void taken(const Slot& slot);
  // Returns why the result cannot be, or an empty text.
  std::string close(Closed closed, std::size_t bytes);
  std::optional<Bundle> bundle(const Slot& slot) const;
  // The next post or question that is due, encoded.
  std::optional<Encoded> next(double now);
  // The last post given out has left, which takes long on a slow line: it is not repeated before
  // its answer can be here.
  void said(double now);
  // A piece of a message has come, most likely of the result that would be asked for: nothing is
  // asked while pieces come.
  void hearing(double now) { heard_piece_at_ = now; }
  // For a hello: all rounds below next_round() are closed and over, and of later ones the results
  // of ahead() are here.
  std::uint64_t next_round() const;
  std::vector<Slot> ahead() const;
  std::vector<RoundHash> recent() const;
  std::uint64_t step() const;  // the highest round that a rank has spoken of
  std::uint64_t open() const;  // as far as is known here

 private:
  struct Key {
    Kind kind;
    std::uint64_t number;
    std::uint32_t phase;
    auto operator<=>(const Key&) const = default;
  };
  static constexpr double kNever = -std::numeric_limits<double>::infinity();
  struct Part {
    std::optional<SharedBytes> own;
    bool taken = false;
    bool awaited = false;
    double said_at = kNever;   // the post; in this connection
    double asked_at = kNever;  // the question
    bool closed = false;
    bool included = false;
    bool collected = false;
    std::vector<SharedFrame> frames;  // of the other sites; reduce: the mean
    std::vector<std::uint32_t> absent;
  };
  struct Entry {
    std::vector<Part> parts;
    std::size_t closed = 0;     // parts
    std::size_t collected = 0;  // parts
    std::size_t bytes = 0;      // of all frames
  };
  // What the ranks have done in one kind.
  struct Course {
    bool begun = false;
    std::vector<std::uint64_t> at;   // by part: the last collected; more phases may come
    std::uint64_t highest = 0;       // number that was posted or waited for
    std::uint64_t open = 0;          // the hub has closed all before this one
    std::uint64_t position() const;  // the least of at
  };

  static Key key(const Slot& slot) { return {slot.kind, slot.round.number, slot.round.phase}; }
  Entry& entry(const Slot& slot);
  const Entry* find(const Slot& slot) const;
  Course& begin(const Slot& slot);
  Course& course(Kind kind) { return courses_[static_cast<std::size_t>(kind)]; }
  const Course& course(Kind kind) const { return courses_[static_cast<std::size_t>(kind)]; }
  std::vector<SharedFrame> all_frames(const Part& part, Kind kind) const;  // the own one too
  Traffic& traffic_of(const Slot& slot);
  std::uint64_t first_lacking(Kind kind) const;
  std::optional<Encoded> next_of(const Key& key, Entry& entry, double now);
  void reopen(const Key& key, Entry& entry);
  void forget_old(Kind kind);

  SiteRoundsOptions options_;
  std::uint32_t site_ = 0;
  std::optional<std::uint64_t> first_;  // lowest round that a rank can ask for, if it entered late
  std::map<Key, Entry> rounds_;
  std::array<Course, 2> courses_;
  std::vector<Traffic> traffic_;
  std::optional<Slot> last_post_;  // given out by next
  double heard_piece_at_ = kNever;
};

}  // namespace thinwire::hub
