// Is an update of the form that its method says?
#pragma once

#include <cstddef>
#include <string>

#include "thinwire/update.h"

namespace thinwire {

// The reason why not, or nothing. `floats`: of the shard.
std::string misfit(const Update& update, const UpdateForm& form, std::size_t floats);

}  // namespace thinwire
