// Wrapping policies: which declared units are gathered together.
#pragma once

#include <vector>

#include "thinwire/layout.h"
#include "thinwire/site_options.h"

namespace thinwire {

// The same parameters with other unit numbers. A pure function of the list and the policy; unit
// numbers that make no sense are left for the Layout to refuse.
std::vector<ParameterSpec> wrapped(std::vector<ParameterSpec> parameters, const Wrap& wrap);

}  // namespace thinwire
