// Every waiting time of the far link, in seconds, as it follows from the one knob, the peer timeout
// (--peer-timeout). `thinwire train --print-timeouts` shows them. Internal to transports/ and
// apps/.
#pragma once

#include <algorithm>

namespace thinwire::timeouts {

// What the knobs may be.
inline constexpr double kKnobMin = 0.1;
inline constexpr double kKnobMax = 86'400.0;

// ---- a connection
// A new one is given up when it is not made by then.
constexpr double dial_patience(double peer) { return std::min(10.0, std::max(1.0, peer)); }
// Between attempts: the first pause, doubled up to the last one.
inline constexpr double kPauseFirst = 0.05;
inline constexpr double kPauseMax = 2.0;
// Then a half-open stranger is cut off.
inline constexpr double kHandshake = 10.0;
// ZeroMQ's heartbeats keep NAT tables warm and clear dead connections away. They count whole
// messages only, and one of 64 MB takes a minute at 10 Mbit/s: judging who is dead is not their
// business, and their patience is long.
constexpr double heartbeat_each(double peer) { return std::clamp(peer / 3.0, 0.1, 5.0); }
constexpr double heartbeat_patience(double peer) { return std::max(60.0, 6.0 * peer); }

// ---- a site
inline constexpr double kHelloEach = 1.0;  // until it is let in
constexpr double ping_each(double peer) { return peer / 4.0; }
// A post or question without an answer is sent again.
constexpr double repeat_each(double peer) { return peer; }
constexpr double hub_dead(double peer) { return peer; }
inline constexpr double kGoodbye = 1.0;  // at most, for the last words of a site

// ---- a hub
constexpr double site_dead(double peer) { return peer; }
// A hub that was started again waits so long for the sites it has not heard of.
constexpr double restart_wait(double peer) { return peer; }
// A standstill of the hub itself that it does not hold against the sites.
constexpr double own_stall(double peer) { return std::min(1.0, peer / 4.0); }
// Then another site is asked for a result that the hub lacks.
inline constexpr double kMissingEach = 1.0;
// A round closes without the late at a multiple of the median round, within these bounds.
inline constexpr double kRoundPatience = 4.0;
constexpr double round_deadline_min(double round_deadline) { return std::min(1.0, round_deadline); }
// A shorter deadline would leave a site out before its connection is found broken and its next
// sign of life is due: whoever hiccups once would be late for ever.
constexpr double shortest_sound_deadline(double peer) { return ping_each(peer); }

}  // namespace thinwire::timeouts
