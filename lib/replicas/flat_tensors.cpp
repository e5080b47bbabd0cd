#include "lib/replicas/flat_tensors.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/base/random.h"

namespace sluice {

FlatTensors::FlatTensors(const Tensors& tensors) : tensors_(tensors) {
  std::string layout;
  for (at::Tensor& tensor : tensors_) {
    if (!tensor.defined()) {
      layout += "-;";
      lines_.emplace_back();
      continue;
    }
    tensor = tensor.detach();
    if (!tensor.is_non_overlapping_and_dense()) tensor = tensor.contiguous();
    lines_.push_back(line_of(tensor));
    elements_ += up_to_line(tensor.numel());
    layout += fmt::format("{}{}/{};", c10::toString(tensor.scalar_type()),
                          tensor.sizes().vec(), tensor.strides().vec());
  }
  layout_ = static_cast<std::int64_t>(random_key({key_part(layout)}) >> 1U);
}

Tensors FlatTensors::range(std::int64_t begin, std::int64_t end) const {
  Tensors pieces;
  std::int64_t first = 0;  // element of the whole that the line begins with
  for (const at::Tensor& line : lines_) {
    if (!line.defined()) continue;
    const std::int64_t from = std::max(begin, first);
    const std::int64_t to = std::min(end, first + line.numel());
    if (from < to) pieces.push_back(line.slice(0, from - first, to - first));
    first += up_to_line(line.numel());
  }
  return pieces;
}

}  // namespace sluice
