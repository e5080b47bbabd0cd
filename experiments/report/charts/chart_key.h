#pragma once

#include <string>

#include "experiments/report/study/methods.h"

namespace sluice::report {

/// The stroke-dasharray of a line; empty: it is whole.
const char* dashes_of(const CellStyle& style);

/// The mark of a point, in SVG: another shape for each colour, for readers
/// without colour vision. `title`: what it says when it is pointed at, if
/// anything.
std::string mark_at(double x, double y, const CellStyle& style,
                    const std::string& title);

}  // namespace sluice::report
