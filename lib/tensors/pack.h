#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "lib/base/messages/message.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// The tensor as it lies in memory: a dense permutation keeps its strides, a
/// stride-0 dimension is stored once; anything else, and what does not start on
/// a kAlignment boundary, is copied first. Shares the tensor's storage where it
/// can, so the tensor must not be written afterwards. What lies on a GPU stays
/// there (view.buffer.device), and is ready for work that is put behind what
/// the current stream has so far; staged() in lib/tensors/gpu/staged_sender.h
/// brings it to the host. On a GPU view.buffer.owner is always an at::Tensor.
TensorView view_of(const at::Tensor& tensor, std::string_view name);

/// A tensor over the view's bytes, where they lie, which it keeps alive. It
/// must never be written in place: others may read the same bytes.
at::Tensor tensor_of(const TensorView& view);

/// What is stored of a view on a GPU, [elements]: repeated dimensions once.
at::Tensor stored_elements(const TensorView& view);

/// Adds the tensors as "<name>.0", "<name>.1", ...
void pack(const Tensors& tensors, std::string_view name, Message& message);

/// The tensors that were packed under the name, in order.
Tensors unpack(const Message& message, std::string_view name);

/// Remembers the state of tensors that others may be reading, or that a
/// neighbour sent: they must not be written in place.
class WriteCheck {
 public:
  explicit WriteCheck(std::initializer_list<const Tensors*> tensors);
  /// Throws UserError naming `culprit` when one has been written since.
  void check(std::string_view culprit) const;

 private:
  Tensors tensors_;
  std::vector<std::uint32_t> versions_;
};

}  // namespace sluice
