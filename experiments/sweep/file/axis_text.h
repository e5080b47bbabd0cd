#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/sweep/file/sweep.h"

namespace sluice::sweep {

/// The parts between commas, without those inside brackets and quotes:
/// "{a = [1, 2]},'x,y'" has two. Never empty.
std::vector<std::string> split_values(std::string_view text);

/// "key=a,b,c" as an axis, also "key=uniform(0, 1)", log_uniform(...) and
/// int(...), each with " if other.key=x,y" behind it where the axis holds only
/// then. Nothing when the text has a single value: it is an override. Throws
/// UserError for an axis that can't be read.
std::optional<Axis> axis_of_text(std::string_view text);

/// Reads a condition like "key=a,b".
AxisCondition when_of_text(std::string_view text);

}  // namespace sluice::sweep
