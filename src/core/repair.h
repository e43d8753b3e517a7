// A replica that differs from that of most sites is mended: the site says the hashes of its rows,
// one of the others answers with those that differ. Two phases of the step's round, which all sites
// take part in; they all know it from the same frames.
#pragma once

#include "thinwire/heard.h"
#include "thinwire/shard.h"
#include "thinwire/sync.h"

namespace thinwire {

// Methods may use the phases below.
inline constexpr int kHashesPhase = 254;
inline constexpr int kRowsPhase = 255;

// For one rank of this site, the number `site` of the run; `heard` may say that nothing of this
// rank's shard differs. Logs what it does, with the first parameter that differed. True: this
// rank's shard was mended.
bool repair_replica(const Step& step, int site, const Heard& heard, Sync& sync, Shard& shard);

}  // namespace thinwire
