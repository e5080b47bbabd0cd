#pragma once

#include <cstdint>
#include <vector>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Type, sizes and strides of a tensor on a device.
struct Layout {
  c10::ScalarType type = c10::ScalarType::Float;
  c10::Device device = c10::kCPU;
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};

  bool operator==(const Layout&) const = default;
};

Layout layout_of(const at::Tensor& tensor);  ///< which is defined
std::vector<Layout> layouts_of(const Tensors& tensors);

/// A new tensor that lies so. Dimensions of stride 0 keep it.
at::Tensor empty_tensor(const Layout& layout);

/// Copies values into tensors of the same layouts, on one GPU in one launch, or
/// few; undefined ones of `from` set zeros, those of `to` are left out.
void copy_values(const Tensors& from, const Tensors& to);
/// New tensors with the same layouts and values; undefined ones stay so.
Tensors laid_out_copies(const Tensors& tensors);

}  // namespace sluice
