#include "src/core/update_form.h"

#include <algorithm>

namespace thinwire {

std::string misfit(const Update& update, const UpdateForm& form, std::size_t floats) {
  const Picks& picks = update.picks;
  if (!form.dense && !update.dense.empty()) return "dense values, which the method never says";
  if (form.dense_whole && !update.dense.empty() && update.dense.size() != floats) {
    return std::to_string(update.dense.size()) + " dense values, expected " +
           std::to_string(floats);
  }
  if (!form.scales && !picks.scales.empty()) return "scales, which the method never says";
  if (picks.positions.empty()) return {};
  if (form.value_bits != 0 && picks.value_bits != form.value_bits) {
    return "codes of " + std::to_string(picks.value_bits) + " bits, expected " +
           std::to_string(form.value_bits);
  }
  if (*std::max_element(picks.counts.begin(), picks.counts.end()) > form.picks_a_tile) {
    return "more than " + std::to_string(form.picks_a_tile) + " coefficients of a tile";
  }
  return {};
}

}  // namespace thinwire
