#pragma once

#include <cstdint>
#include <functional>

namespace sluice {

/// The floating-point operations (two to a multiply-add) of the matrix products
/// and convolutions that `work` does on this thread, forward and backward, by
/// their shapes; element-wise operations aren't counted. What `work` throws is
/// passed on.
double count_products(const std::function<void()>& work);

}  // namespace sluice
