#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace sluice {

/// Inputs of all samples of a split, from which those of a batch are gathered
/// on the device where the table lies.
struct InputTable {
  /// Images: uint8 [N, C, H, W]. Texts: int32 [T], the tokens.
  at::Tensor rows = {};
  /// Images: float32 [C * 256], the input that each byte of each channel is.
  at::Tensor values = {};
  /// Images: int32 [1, C, 1, 1], where the values of a channel begin. Texts:
  /// int64 [1, context], the distances of a sample's tokens from its first.
  at::Tensor steps = {};

  /// places: int64 [N] on that device. Returns float32 [N, C, H, W], or int64
  /// [N, context], with the bits of batches that the CPU makes.
  at::Tensor gathered(const at::Tensor& places) const;
  InputTable on(const c10::Device& device) const;
};

/// What a split's InputTable is made of. For any number of threads.
class InputStore {
 public:
  /// `read` makes the table on the CPU; `bytes` is its size.
  InputStore(std::int64_t bytes, std::function<InputTable()> read);

  std::int64_t bytes() const { return bytes_; }
  /// The table on that device: one for all that want it at the same time.
  std::shared_ptr<const InputTable> on(const c10::Device& device) const;

 private:
  const std::int64_t bytes_;
  const std::function<InputTable()> read_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  mutable std::map<std::string, std::weak_ptr<const InputTable>> tables_;
};

}  // namespace sluice
