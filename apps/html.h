// The report as one self-contained page: no scripts, no references to anything outside.
#pragma once

#include <string>
#include <vector>

#include "apps/plot.h"
#include "apps/results.h"

namespace thinwire::app {

std::string report_html(const CompareResult& result, const std::vector<Figure>& figures);

}  // namespace thinwire::app
