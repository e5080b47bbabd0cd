#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/tensors/tensors.h"

namespace sluice {

/// Samples of the training split that come in an epoch, counted from 0.
struct SampleIds {
  at::Tensor indices;  ///< [N] int64, on the device of the tables
  std::int64_t epoch = 0;
};

/// A variable, and its multiplier, of every sample of the training split: rows
/// of tables, in memory whole. What was kept of a sample is forgotten when an
/// epoch has passed without it, because other methods have moved the weights in
/// between, say. Used by one thread.
class SampleRows {
 public:
  /// samples: of the split; shape: of a sample's variable; the tables are
  /// "<name>.z" and so on in checkpoints. They are made when first asked for.
  SampleRows(std::int64_t samples, SampleShape shape, std::string name,
             bool has_dual);

  /// The variables of these samples; `features` [N, ...], those of the blocks
  /// below, where a sample has none yet.
  at::Tensor variables(const SampleIds& ids, const at::Tensor& features) const;
  /// variables() - features; 0 where a sample has none yet.
  at::Tensor residuals(const SampleIds& ids, const at::Tensor& features) const;
  /// 0 where a sample has none yet. Undefined without multipliers.
  at::Tensor duals(const SampleIds& ids) const;
  /// Keeps the rows of samples; `duals` is undefined where there are none.
  void keep(const SampleIds& ids, const at::Tensor& variables,
            const at::Tensor& duals);

  /// "<name>.z", "<name>.dual", and "<name>.epochs", which is 0 or one more
  /// than the epoch in which the sample was kept last.
  NamedTensors tables() const;

 private:
  struct Tables {
    at::Tensor z;
    at::Tensor dual;
    at::Tensor epochs;
  };

  const Tables& all() const;
  at::Tensor are_known(const SampleIds& ids) const;

  std::int64_t samples_;
  SampleShape shape_;
  std::string name_;
  bool has_dual_;
  /// Ends are made for their traits alone too, and tables are large.
  mutable std::optional<Tables> tables_;
};

}  // namespace sluice
