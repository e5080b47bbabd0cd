#pragma once

#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Samples of one split: inputs [N, ...] of float32 with labels [N], int64, or
/// numbers to be predicted, [N, C] of float32; or of texts, tokens [N, T],
/// int64, with labels [N, T].
struct LabelledTensors {
  at::Tensor inputs = {};
  at::Tensor labels = {};
};

/// A data set in memory.
struct TensorSplits {
  LabelledTensors train = {};
  LabelledTensors test = {};
  LabelledTensors validation = {};  ///< none by default
  /// Labels, of texts tokens too, are below it. Of numbers it is C.
  std::int64_t classes = 0;
};

/// The data set of what `make` gives, for rows of NetworkOptions::data_sets. It
/// is called at once, in every process of a run, and must give the same each
/// time; it may draw from LibTorch's process-wide generator, which is put back
/// as it was. Throws UserError for shapes, types and labels that don't fit.
DataSet data_set_of(const std::function<TensorSplits()>& make);

}  // namespace sluice
