// The shared half of the loopback exchange: where frames meet and rounds are closed. Internal to
// transports/.
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

  void post(int site, const Round& round, Bytes frame);
  RoundResult collect(int site, const Round& round);
  Traffic traffic(int site) const;
  double now(int site) const;
  void spend(int site, double seconds);
  void fail(const std::string& why);
  int sites() const { return options_.sites; }

 private:
  struct Entry {
    std::vector<std::optional<Bytes>> frames;
    std::vector<double> arrivals;  // on the virtual clock
    int posted = 0;
    bool closed = false;
    double closed_at = 0.0;
    int collected = 0;
    int waiting = 0;  // threads inside collect; such an entry is never forgotten
  };
  struct Site {
    double now = 0.0;
    std::optional<LinkModel> up;
    std::optional<LinkModel> down;
    Traffic traffic;
  };

  Entry& entry(const Round& round);
  void close(Entry& entry);
  RoundResult result(int site, const Entry& entry);
  void forget_old(const Round& newest);

  const LoopbackOptions options_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<Round, Entry> rounds_;
  std::optional<Round> forgotten_;  // the newest round that is no longer kept
  std::vector<Site> sites_;
  std::string failure_;
};

std::unique_ptr<Exchange> make_loopback_exchange(LoopbackHub& hub, int site);

}  // namespace thinwire
