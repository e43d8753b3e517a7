// The version of the program, from CMake's project().
#pragma once

namespace thinwire::app {

const char* version();

}  // namespace thinwire::app
