#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace sluice {

/// Numbers of both signs whose magnitudes are spread evenly over the exponents
/// below `largest`, down to 2^-30.
inline std::vector<float> numbers_of_all_sizes(std::uint64_t seed,
                                               std::size_t count,
                                               double largest) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(-30, std::log2(largest));
  std::vector<float> values(count);
  for (float& value : values) {
    const double magnitude = std::exp2(exponent(random));
    value = static_cast<float>(random() % 2 == 0 ? magnitude : -magnitude);
  }
  return values;
}

}  // namespace sluice
