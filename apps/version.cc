#include "apps/version.h"

namespace thinwire::app {

const char* version() { return THINWIRE_VERSION; }

}  // namespace thinwire::app
