#pragma once

#include <cstdint>

#include "lib/kernels/any_device.h"

/// Philox4x32-10, a counter-based generator: J. K. Salmon, M. A. Moraes, R. O.
/// Dror and D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
/// section 3.3. A bijection of counters for each key: any number of the
/// sequence is computed without those before it.
namespace sluice {

inline constexpr int kPhiloxRounds = 10;

/// A counter, or the four numbers that it gives; the lowest word first.
struct PhiloxWords {
  std::uint32_t word[4] = {0, 0, 0, 0};
};

/// The key of a round.
struct PhiloxKey {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
};

/// The key of the first round.
SLUICE_ON_ANY_DEVICE inline PhiloxKey philox_key(std::uint64_t key) {
  return {static_cast<std::uint32_t>(key),
          static_cast<std::uint32_t>(key >> 32)};
}

/// The key of the round after that of `key`: with the golden ratio and
/// sqrt(3) - 1 added.
SLUICE_ON_ANY_DEVICE inline PhiloxKey next_philox_key(PhiloxKey key) {
  return {key.low + 0x9e3779b9, key.high + 0xbb67ae85};
}

SLUICE_ON_ANY_DEVICE inline PhiloxWords philox_round(const PhiloxWords& from,
                                                     PhiloxKey key) {
  const std::uint64_t first = std::uint64_t{0xd2511f53} * from.word[0];
  const std::uint64_t second = std::uint64_t{0xcd9e8d57} * from.word[2];
  return {{static_cast<std::uint32_t>(second >> 32) ^ from.word[1] ^ key.low,
           static_cast<std::uint32_t>(second),
           static_cast<std::uint32_t>(first >> 32) ^ from.word[3] ^ key.high,
           static_cast<std::uint32_t>(first)}};
}

/// The four numbers of a counter, each uniform in [0, 2^32).
SLUICE_ON_ANY_DEVICE inline PhiloxWords philox(PhiloxWords counter,
                                               std::uint64_t key) {
  PhiloxKey of_round = philox_key(key);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    counter = philox_round(counter, of_round);
    of_round = next_philox_key(of_round);
  }
  return counter;
}

}  // namespace sluice
