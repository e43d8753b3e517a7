// A site of several processes at a hub: rank 0 holds the link, the others speak and hear through
// it. All ranks post, collect and average in the same order, so each of these is one exchange
// inside the site; what goes wrong at rank 0 is thrown on all ranks, as the same kind of error.
//
// Such a site does not take the state over from others, nor give it: it begins with the run.
//
// One thread, that of the rank; the group and the link outlive the relay.
#pragma once

#include <memory>

#include "thinwire/collective.h"
#include "thinwire/exchange.h"
#include "transports/zmq.h"

namespace thinwire {

class SiteRelay {
 public:
  // `ranks`: the site's, for this alone. On all but rank 0 with a deadline of many hours: below the
  // hub's least number of sites rank 0 stands still for as long as it takes. `link`: of rank 0,
  // with as many ranks; null on the others.
  SiteRelay(Collective& ranks, ZmqLink* link);
  ~SiteRelay();

  int site() const;
  int sites() const;
  Exchange& exchange();
  Collective& collective();  // all_reduce_mean alone
  // ZmqLink::save_rounds of this rank. All ranks ask for the same rounds.
  Bytes save_rounds(std::uint64_t from);

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

}  // namespace thinwire
