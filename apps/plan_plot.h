// The pictures of a plan that a single comparison does not have: what the bytes buy, and what size
// does to it.
#pragma once

#include "apps/plan_result.h"
#include "apps/plot.h"

namespace thinwire::app {

// Curves of the methods at that size, as a comparison draws them.
std::vector<Figure> curve_figures(const PlanResult& result, const PlanSizeResult& size);

// Gap to adamw against bytes of a parameter and step, with the front of those that no other method
// beats in both.
Figure pareto_figure(const PlanSizeResult& size);

// Gap to adamw against the number of parameters; for two sizes or more.
Figure size_figure(const PlanResult& result);

// Which of the points no other one beats: at most as many bytes and at most the gap. Ascending
// bytes.
struct ParetoPoint {
  double bytes = 0.0;
  double gap = 0.0;
  std::size_t index = 0;
};
std::vector<ParetoPoint> pareto_front(std::vector<ParetoPoint> points);

}  // namespace thinwire::app
