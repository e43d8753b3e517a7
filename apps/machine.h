// The machine a measurement was made on, in one line.
#pragma once

#include <string>

namespace thinwire::app {

// "AMD EPYC, 2 cores, g++ 12.2.0, 2026-11-30"
std::string machine_text();

}  // namespace thinwire::app
