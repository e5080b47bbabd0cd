#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace sluice {

/// Randomness is keyed: the same parts give the same key on every machine, and
/// no process-wide generator is touched. Masks therefore don't change with the
/// cut, the engine or the order of execution.
std::uint64_t random_key(std::initializer_list<std::uint64_t> parts);

/// A name as a part of a key (FNV-1a, so that it is the same everywhere).
std::uint64_t key_part(std::string_view name);

/// A small generator with a key as its seed: SplitMix64. A value type, to be
/// used where std distributions (whose results differ between standard
/// libraries) would not be reproducible.
class KeyedRandom {
 public:
  explicit KeyedRandom(std::uint64_t key) : state_(key) {}

  std::uint64_t next();
  /// A number in [0, 1), with 53 random bits.
  double uniform();
  double uniform(double low, double high);
  /// A whole number in [0, bound), unbiased; bound > 0.
  std::uint64_t below(std::uint64_t bound);
  /// Normal with mean 0 and standard deviation 1 (Box-Muller, one per call).
  double normal();

 private:
  std::uint64_t state_;
};

}  // namespace sluice
