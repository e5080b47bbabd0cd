#pragma once

#include <optional>
#include <string>

namespace sluice {

/// ", accuracy 93.20 %" of 0.932, to stand behind a loss; empty where there is
/// none (or NaN): the targets are numbers then.
std::string with_accuracy(std::optional<double> accuracy);

}  // namespace sluice
