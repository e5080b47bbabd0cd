#pragma once

#include <ATen/core/Tensor.h>

#include "lib/base/buffer.h"

namespace sluice {

/// Throws UserError for a tensor whose elements can be neither sent nor saved.
DType dtype_of(const at::Tensor& tensor);
at::ScalarType scalar_type(DType dtype);

}  // namespace sluice
