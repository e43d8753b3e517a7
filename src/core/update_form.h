// Is an update of the form that its method says?
#pragma once

#include <string>

#include "thinwire/update.h"

namespace thinwire {

// The reason why not, or nothing.
std::string misfit(const Update& update, const UpdateForm& form);

}  // namespace thinwire
