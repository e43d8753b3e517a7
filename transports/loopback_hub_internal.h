// The shared half of the loopback exchange: where frames meet and rounds are closed, for all ranks
// of all sites at once: a site takes part in a round with all of its ranks or with none. Internal
// to transports/.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/exchange.h"
#include "transports/loopback.h"

namespace thinwire {

class LoopbackHub {
 public:
  explicit LoopbackHub(const LoopbackOptions& options);

  // Member site * ranks + rank.

  void post(int member, const Round& round, Bytes frame);
  RoundResult collect(int member, const Round& round);
  bool missed(int member, const Round& round) const;
  Traffic traffic(int member) const;
  double now(int member) const;
  void spend(int member, double seconds);
  void fail(const std::string& why);
  int sites() const { return options_.sites; }
  int site_of(int member) const { return member / options_.ranks; }

 private:
  struct Entry {
    std::vector<std::optional<Bytes>> frames;  // by member
    std::vector<double> arrivals;              // by member, on the virtual clock
    std::vector<bool> included;                // by site, once closed
    int posted = 0;
    bool closed = false;
    double closed_at = 0.0;
    int collected = 0;
    int waiting = 0;  // threads inside collect; such an entry is never forgotten
  };
  struct Member {
    double now = 0.0;
    std::optional<LinkModel> up;
    std::optional<LinkModel> down;
    Traffic traffic;
  };

  Entry& entry(const Round& round);
  void close(Entry& entry);
  // When the last rank of the site arrived; infinity when one did not.
  double arrival(const Entry& entry, int site) const;
  RoundResult result(int member, const Entry& entry);
  void forget_old(const Round& newest);

  const LoopbackOptions options_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<Round, Entry> rounds_;
  std::optional<Round> forgotten_;  // the newest round that is no longer kept
  std::vector<Member> members_;
  std::string failure_;
};

std::unique_ptr<Exchange> make_loopback_exchange(LoopbackHub& hub, int member);

}  // namespace thinwire
