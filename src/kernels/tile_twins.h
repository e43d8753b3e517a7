// The twins of tile_kernels.h and of orthogonalize, for the table of device_kernels.h.
#pragma once

#include "src/kernels/device_kernels.h"

namespace thinwire::kernels::twins {

void extract(Tiles tiles, ConstFloats values, std::size_t origin, const Extract& how,
             Floats residual, const Lists& taken, Chosen& chosen);
void step_along(Tiles tiles, const Said& said, const Along& how, std::size_t origin, Floats x);
double inverse_said(Tiles tiles, const Said& said, Basis basis, std::size_t origin, Floats z);
double inverse_owed(Tiles tiles, ConstFloats residual, std::span<const Lists> lists, Basis basis,
                    std::size_t origin, Floats z);
void give_back(Tiles tiles, const Lists& lists, std::span<const std::uint16_t> counts,
               Floats residual);
void clear(Tiles tiles, const Lists& lists);
void orthogonalize(std::size_t rows, std::size_t cols, Floats matrix, int iterations);

}  // namespace thinwire::kernels::twins
