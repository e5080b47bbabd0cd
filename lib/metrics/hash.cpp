#include "lib/metrics/hash.h"

#include <functional>

#include <ATen/ATen.h>
#include <fmt/format.h>

namespace sluice {

std::string hash_of(std::string_view bytes) {
  return fmt::format("{:016x}", std::hash<std::string_view>()(bytes));
}

std::string hash_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().contiguous();
  return hash_of(std::string_view(static_cast<const char*>(values.data_ptr()),
                                  values.nbytes()));
}

}  // namespace sluice
