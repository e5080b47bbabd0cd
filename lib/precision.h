#pragma once

#include <cstdint>

namespace sluice {

enum class Precision : std::uint8_t { fp32, bf16 };

/// Autocast for the life of one action, on the thread that runs it. The cache
/// of cast weights is cleared at the end: it would outlive an update in place.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  bool active_;
  bool before_ = false;
};

/// No autocast for the life of this object: for backward passes, which take
/// the types of their forward, and for sums that bf16 would spoil.
class FullPrecisionScope {
 public:
  FullPrecisionScope();
  ~FullPrecisionScope();
  FullPrecisionScope(const FullPrecisionScope&) = delete;
  FullPrecisionScope& operator=(const FullPrecisionScope&) = delete;

 private:
  bool before_;
};

}  // namespace sluice
