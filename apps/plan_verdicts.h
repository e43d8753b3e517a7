// Whether what a plan expects came true.
#pragma once

#include <vector>

#include "apps/plan.h"
#include "apps/plan_result.h"

namespace thinwire::app {

// One verdict an expectation and size. A method that did not train, or was left out, fulfils none.
std::vector<Verdict> judge(const Plan& plan, const PlanResult& result);

}  // namespace thinwire::app
