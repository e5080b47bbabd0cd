#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <ATen/core/Tensor.h>

#include "lib/base/config.h"
#include "lib/base/table.h"

namespace sluice {

/// outputs [N, classes], labels [N] int64 -> the mean loss, a scalar. For
/// texts: outputs [N, T, classes], labels [N, T], the mean over all N * T
/// positions. Labels may be float32 [N, classes]: shares of classes or numbers.
using Loss = std::function<at::Tensor(const at::Tensor& outputs,
                                      const at::Tensor& labels)>;

/// The loss of a run, twice.
struct RunLoss {
  Loss training = {};    ///< of the last block and of heads that classify
  Loss evaluation = {};  ///< what evaluations report: without label smoothing
};

using ConfigureLoss = RunLoss (*)(Fields& options);
using LossRow = Row<ConfigureLoss>;

/// A new loss is one function and one row.
std::span<const LossRow> losses();

}  // namespace sluice
