// The first line in which two sites' settings differ, for people. Internal to transports/.
#pragma once

#include <string>

#include "transports/hub_messages_internal.h"

namespace thinwire::hub {

std::string difference(const Hello& ours, const Hello& theirs);

}  // namespace thinwire::hub
