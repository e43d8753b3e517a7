// The default text: the King James Bible (public domain) as the Debian package bible-kjv prints it.
#pragma once

#include "models/text.h"

namespace thinwire::app {

// One verse a line without its label, 4,137,850 bytes. Throws UsageError when the package is
// missing.
Text read_kjv();

}  // namespace thinwire::app
