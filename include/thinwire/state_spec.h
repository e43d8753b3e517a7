// What an optimizer remembers, as it declares it (Traits::states). Values.
#pragma once

#include <cstddef>
#include <string>

namespace thinwire {

// replicated: equal bits on every site, hashed with the parameters. own: differs from site to site
// (residuals); saved per site.
enum class StateKind { replicated, own };

// How many floats a state has. elements: one per trainable parameter value, same order as params().
// coefficients: one per transform coefficient, padding included, tile after tile. per_tile: `count`
// floats for each tile. whole: `count` floats, the same on every rank of a site.
enum class StateExtent { elements, coefficients, per_tile, whole };

struct StateSpec {
  std::string name;
  StateKind kind = StateKind::own;
  StateExtent extent = StateExtent::elements;
  std::size_t count = 1;  // for per_tile and whole
  // Kept for updates that are not heard yet: of no meaning, and zero, when nothing is in flight.
  bool in_flight = false;
  // Own, and of this site's gradients alone (a second moment): nothing of it is owed to anybody,
  // and it may not become negative because other sites go.
  bool memory = false;

  bool operator==(const StateSpec&) const = default;
};

}  // namespace thinwire
