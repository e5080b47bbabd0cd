#pragma once

#include <optional>
#include <string>

namespace sluice {

/// ", accuracy 93.20 %" of 0.932, to stand behind a loss; empty where there is
/// none (or NaN): the targets are numbers then.
std::string with_accuracy(std::optional<double> accuracy);
/// R2 of a regression in the same form: ", R² 0.9320".
std::string with_r2(std::optional<double> r2);
/// ", 1.5432 bits per byte" likewise, of a text.
std::string with_bits(std::optional<double> bits_per_byte);

}  // namespace sluice
