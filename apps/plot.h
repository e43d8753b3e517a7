// The three pictures of a report: held-out loss against steps, bytes and modelled time.
#pragma once

#include <string>
#include <vector>

#include "apps/results.h"

namespace thinwire::app {

struct Figure {
  std::string caption;  // "Held-out loss against steps"
  std::string alt;      // what the picture shows, in words
  std::string svg;  // an <svg> element in the colours of its surroundings; empty without gnuplot
  std::string instead;  // what to say where there is no picture
};

// Always three figures. Seeds are thin lines, their mean is a thick one; the
// untrained start is not drawn. A page with several results gives each an `id` of its own.
std::vector<Figure> figures(const CompareResult& result, const std::string& id = "");

}  // namespace thinwire::app
