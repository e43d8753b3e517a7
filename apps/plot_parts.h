// What all pictures share: colours, names that gnuplot may see, its document as a part of a page.
// Internal to the plots.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace thinwire::app {

// Readable on white and on near-black; the dashes tell methods apart without colour.
inline constexpr std::array<const char*, 8> kColours{"3b7dd8", "d9601a", "2a9d57", "b04fc4",
                                                     "b58900", "d1436b", "1795a5", "808080"};
inline constexpr std::array<const char*, 4> kDashes{"1", "(18,5)", "(5,4)", "(18,4,4,4)"};

// Names come from a user; gnuplot must not see quotes, backquotes or escapes in them.
std::string harmless(std::string_view text);

// Points of a picture with so many names above it: they take rows, which the curves keep.
int picture_height(std::size_t names);

// gnuplot's document as an element of a page: no prolog, ids of its own, black becomes the text
// colour.
std::string inline_svg(const std::string& document, const std::string& id, const std::string& alt);

}  // namespace thinwire::app
