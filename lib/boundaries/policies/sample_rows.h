#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/tensors/tensors.h"

namespace sluice {

/// A variable, and its multiplier, of every sample of the training split: rows
/// of tables, in memory whole. `ids` are sample indices, [N] int64, on the
/// device of the tables. Used by one thread.
class SampleRows {
 public:
  /// samples: of the split; shape: of a sample's variable; the tables are
  /// "<name>.z" and so on in checkpoints. They are made when first asked for.
  SampleRows(std::int64_t samples, SampleShape shape, std::string name,
             bool has_dual);

  /// The variables of these samples; `features` [N, ...], those of the blocks
  /// below, where a sample has none yet.
  at::Tensor variables(const at::Tensor& ids, const at::Tensor& features) const;
  /// variables() - features; 0 where a sample has none yet.
  at::Tensor residuals(const at::Tensor& ids, const at::Tensor& features) const;
  /// 0 where a sample has none yet. Undefined without multipliers.
  at::Tensor duals(const at::Tensor& ids) const;
  /// `duals` undefined where there are none.
  void keep(const at::Tensor& ids, const at::Tensor& variables,
            const at::Tensor& duals);

  /// "<name>.z", "<name>.dual", "<name>.has_z".
  NamedTensors tables() const;

 private:
  struct Tables {
    at::Tensor z;
    at::Tensor dual;
    at::Tensor has_z;  // int64
  };

  const Tables& all() const;
  at::Tensor are_known(const at::Tensor& ids) const;

  std::int64_t samples_;
  SampleShape shape_;
  std::string name_;
  bool has_dual_;
  /// Ends are made for their traits alone too, and tables are large.
  mutable std::optional<Tables> tables_;
};

}  // namespace sluice
