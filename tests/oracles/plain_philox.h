#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// The oracle: Philox4x32-10 as the paper's figure draws it, a multiplication
/// and a division at a time, without anything of Sluice. Words are numbers
/// below 2^32, the lowest first.
struct PlainPhilox {
  using Words = std::array<std::uint64_t, 4>;
  static constexpr std::uint64_t kWord = std::uint64_t{1} << 32;

  std::array<std::uint64_t, 2> key = {0, 0};

  Words numbers(const Words& counter, int rounds = 10) const {
    if (rounds == 0) return counter;
    const Words before = numbers(counter, rounds - 1);
    const auto bumps = static_cast<std::uint64_t>(rounds - 1);
    const std::uint64_t left_key = (key[0] + bumps * 2654435769U) % kWord;
    const std::uint64_t right_key = (key[1] + bumps * 3144134277U) % kWord;
    const std::uint64_t left = before[0] * 3528531795U;
    const std::uint64_t right = before[2] * 3449720151U;
    return {(right / kWord) ^ before[1] ^ left_key, right % kWord,
            (left / kWord) ^ before[3] ^ right_key, left % kWord};
  }

  /// The mask of a dropout: 0 with probability p, else 1 / (1 - p).
  float mask_element(double p, std::uint64_t index) const {
    const std::uint64_t counter = index / 4;
    const Words drawn = numbers({counter % kWord, counter / kWord, 0, 0});
    const double uniform = static_cast<double>(drawn[index % 4]);
    // Whole numbers below p * 2^32, rounded down.
    const bool is_dropped = uniform + 1 <= p * 4294967296.0;
    return is_dropped ? 0 : static_cast<float>(1 / (1 - p));
  }
};

inline PlainPhilox plain_philox(std::uint64_t key) {
  return {{key % PlainPhilox::kWord, key / PlainPhilox::kWord}};
}

/// Elements first to first + count - 1 of the mask of that key.
inline std::vector<float> plain_mask(double p, std::uint64_t key,
                                     std::int64_t first, std::int64_t count) {
  const PlainPhilox philox = plain_philox(key);
  std::vector<float> mask;
  for (std::int64_t i = 0; i < count; ++i)
    mask.push_back(
        philox.mask_element(p, static_cast<std::uint64_t>(first + i)));
  return mask;
}

}  // namespace sluice
