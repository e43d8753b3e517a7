// `thinwire keygen FILE`: a key pair for a hub or a site.
#pragma once

#include <string>

namespace thinwire::app {

// Writes FILE, for its owner alone, and prints the public key. Never replaces a file.
void run_keygen(const std::string& file);

}  // namespace thinwire::app
