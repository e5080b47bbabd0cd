#include "lib/base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15;

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, in
/// Vigna's version): a bijection in which every input bit reaches all others.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

std::uint64_t random_key(std::initializer_list<std::uint64_t> parts) {
  // The length comes first, so that (a) and (a, 0) differ; the rotation makes
  // the order of the parts matter.
  std::uint64_t key = mix(kGoldenGamma + parts.size());
  for (const std::uint64_t part : parts) {
    key = mix(std::rotl(key, 23) + mix(part + kGoldenGamma));
  }
  return key;
}

std::uint64_t key_part(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

std::uint64_t KeyedRandom::next() {
  state_ += kGoldenGamma;
  return mix(state_);
}

double KeyedRandom::uniform() {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

double KeyedRandom::uniform(double low, double high) {
  return low + (high - low) * uniform();
}

std::uint64_t KeyedRandom::below(std::uint64_t bound) {
  SLUICE_CHECK(bound > 0, "below(0) has no answer");
  // 2^64 mod bound values at the bottom are one too many for some remainders.
  const std::uint64_t surplus = (0 - bound) % bound;
  std::uint64_t value = next();
  while (value < surplus) value = next();
  return value % bound;
}

double KeyedRandom::normal() {
  // 1 - uniform() is in (0, 1], where the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace sluice
