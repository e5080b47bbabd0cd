#pragma once

#include <array>
#include <cstdint>

#include <c10/core/DeviceType.h>

namespace sluice {

enum class Precision : std::uint8_t { fp32, bf16 };

/// Where blocks may compute; CUDA stands for ROCm too.
inline constexpr std::array kDevicesOfBlocks = {
    c10::DeviceType::CPU, c10::DeviceType::CUDA, c10::DeviceType::XPU};

/// Autocast for the life of one action, on the thread that runs it. The cache
/// of cast weights is cleared at the end: it would outlive an update in place.
class PrecisionScope {
 public:
  explicit PrecisionScope(Precision precision,
                          c10::DeviceType device = c10::DeviceType::CPU);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  bool active_;
  c10::DeviceType device_;
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
  std::array<bool, kDevicesOfBlocks.size()> before_ = {};
};

}  // namespace sluice
