#include "lib/tensors/layouts.h"

#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

bool is_repeated(const at::Tensor& tensor, std::int64_t dimension) {
  return tensor.stride(dimension) == 0 && tensor.size(dimension) > 1;
}

/// Leaves out repeats: each element of `to` once, and the same elements of
/// `from`.
void leave_out_repeats(at::Tensor& from, at::Tensor& to) {
  for (std::int64_t i = 0; i < to.dim(); ++i) {
    if (!is_repeated(to, i)) continue;
    SLUICE_CHECK(is_repeated(from, i),
                 "a tensor has many values where it had one before");
    to = to.narrow(i, 0, 1);
    from = from.narrow(i, 0, 1);
  }
}

}  // namespace

Layout layout_of(const at::Tensor& tensor) {
  return {.type = tensor.scalar_type(),
          .device = tensor.device(),
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec()};
}

std::vector<Layout> layouts_of(const Tensors& tensors) {
  std::vector<Layout> layouts;
  for (const at::Tensor& tensor : tensors) layouts.push_back(layout_of(tensor));
  return layouts;
}

at::Tensor empty_tensor(const Layout& layout) {
  std::vector<std::int64_t> once = layout.sizes;
  for (std::size_t i = 0; i < once.size(); ++i)
    if (layout.strides[i] == 0 && once[i] > 1) once[i] = 1;
  const at::Tensor tensor =
      at::empty_strided(once, layout.strides,
                        at::TensorOptions(layout.type).device(layout.device));
  return once == layout.sizes ? tensor : tensor.expand(layout.sizes);
}

void copy_values(const Tensors& from, const Tensors& to) {
  const at::NoGradGuard no_grad;
  // An operation on a list takes tensors of one type.
  std::map<c10::ScalarType, std::pair<Tensors, Tensors>> by_type;
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (!to[i].defined()) continue;
    at::Tensor target = to[i];
    at::Tensor source = from[i].defined()
                            ? from[i]
                            : at::zeros({}, to[i].options()).expand_as(to[i]);
    leave_out_repeats(source, target);
    auto& [targets, sources] = by_type[target.scalar_type()];
    targets.push_back(target);
    sources.push_back(source);
  }
  for (auto& [type, copies] : by_type) {
    auto& [targets, sources] = copies;
    if (targets.size() == 1)
      targets.front().copy_(sources.front());
    else
      at::_foreach_copy_(targets, sources);
  }
}

Tensors laid_out_copies(const Tensors& tensors) {
  const at::NoGradGuard no_grad;
  Tensors copies(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].defined()) copies[i] = empty_tensor(layout_of(tensors[i]));
  copy_values(tensors, copies);
  return copies;
}

}  // namespace sluice
