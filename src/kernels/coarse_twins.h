// The twins of coarse_kernels.h, for the table of device_kernels.h.
#pragma once

#include "src/kernels/device_kernels.h"

namespace thinwire::kernels::twins {

void say_coarse(Tiles tiles, Coarse coarse, Floats values, Words& words);
void add_coarse(Tiles tiles, Coarse coarse, const WordsView& words, Floats into);
void say_signs(Tiles tiles, ConstFloats values, Words& words);

}  // namespace thinwire::kernels::twins
