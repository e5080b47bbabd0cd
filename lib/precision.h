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

}  // namespace sluice
