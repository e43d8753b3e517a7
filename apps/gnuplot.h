// Gnuplot as a child process: no shell, no files, no init files of the user.
#pragma once

#include <optional>
#include <string>

namespace thinwire::app {

// What gnuplot prints for the script; nothing when it is not in PATH, fails, or takes over 20
// seconds.
std::optional<std::string> run_gnuplot(const std::string& script);

}  // namespace thinwire::app
