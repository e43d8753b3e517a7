// Runs a piece of a test once for every SIMD target that was built and that this machine has.
#pragma once

#include <hwy/highway.h>

#include <string>

namespace thinwire::testing_support {

// body(name of the target)
template <class Body>
void for_each_target(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(std::string(hwy::TargetName(target)));
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace thinwire::testing_support
