// Names that plans know beside the catalog's, and the baselines that every plan has. Internal to
// read_plan.
#pragma once

#include <string>

#include "apps/plan.h"

namespace thinwire::app {

inline constexpr const char* kAdamw = "adamw";
inline constexpr const char* kMuon = "muon";
inline constexpr const char* kAlone = "alone";          // one site, no communication
inline constexpr const char* kAveraging = "averaging";  // of weights, every few steps

// "alone:beta1=0.8" -> "adamw:beta1=0.8"; what is no preset is given back as it is.
std::string expand_preset(const std::string& method);

// Whether the entry is one, as "alone" or "alone:beta1=0.8".
bool is_alone(const std::string& method);

bool is_baseline(const std::string& label);

// Adds the baselines that the plan does not list under their labels, or a note where the catalog
// lacks a method, and puts all baselines first. Needs at least one size.
void add_baselines(Plan& plan, const OptimizerCatalog& catalog);

}  // namespace thinwire::app
