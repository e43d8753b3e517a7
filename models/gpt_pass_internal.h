// How a Gpt goes over windows of text: on the host in slices that threads take (gpt_on_host.cc), on
// a device all at once (gpt_on_device.cc). Both take the leases of units in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/gpt_core.h"
#include "thinwire/model.h"

namespace thinwire {

class GptPass {
 public:
  // Each points to context + 1 bytes, which must outlive the pass.
  using Windows = std::span<const std::uint8_t* const>;

  virtual ~GptPass() = default;
  // The sum of -log p over all targets, in nats.
  virtual double loss(Units& units, Windows windows) = 0;
  // The same, and leaves the gradient of scale * that sum in the units.
  virtual double loss_and_grad(Units& units, Windows windows, float scale) = 0;
};

// Room for up to `batch` windows. `list` is gpt_parameters(options) and must outlive the pass.
std::unique_ptr<GptPass> make_pass_on_host(const GptOptions& options,
                                           std::span<const GptParameter> list, std::size_t batch);
std::unique_ptr<GptPass> make_pass_on_device(const GptOptions& options,
                                             std::span<const GptParameter> list, std::size_t batch);

// Of each unit: the indices of its parameters.
std::vector<std::vector<std::size_t>> members_of_units(std::span<const GptParameter> list);

}  // namespace thinwire
