#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace sluice {

/// What crosses a boundary: a tuple of activations, or a gradient for each.
using Tensors = std::vector<at::Tensor>;

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// What travels with a batch beside features and labels, by name.
using Attachments = std::map<std::string, at::Tensor>;

inline Tensors values_of(const NamedTensors& named) {
  Tensors values;
  for (const auto& [name, tensor] : named) values.push_back(tensor);
  return values;
}

inline std::int64_t bytes_of(const Tensors& tensors) {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

inline std::int64_t bytes_of(const Attachments& attachments) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : attachments)
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// Sizes of one sample, without the batch dimension: [C], [C, H, W] or, of a
/// sequence, [T, C].
using SampleShape = std::vector<std::int64_t>;

/// Kind of a batch's labels.
enum class Targets : std::uint8_t {
  classes,  ///< int64 [N], of a text [N, T]
  /// In training float32 [N, classes], the share of each class, which sum to 1
  /// (mixup); in evaluations as `classes`.
  shares,
  values,  ///< float32 [N, classes]: numbers to be predicted (regression)
};

/// What a data set yields and a model takes.
struct SampleSpec {
  /// [C] or [C, H, W] of float32; of a text [T] of int64 tokens.
  SampleShape shape = {};
  /// Labels are below it; of a text, tokens too. Where targets are numbers, how
  /// many a sample has. The outputs of a model.
  std::int64_t classes = 0;
  /// Whether a sample is a text: its label is a token for each place, [T].
  bool is_text = false;
  Targets targets = Targets::classes;
};

}  // namespace sluice
