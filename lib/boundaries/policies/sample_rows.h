#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/boundaries/boundary.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// Samples that come in an epoch, or in the passes over an echo, counted from
/// 0.
struct SampleIds {
  at::Tensor indices;  ///< [N] int64: rows, on the device of the tables
  std::int64_t epoch = 0;
};

/// Ids of a batch, from its attachment kSampleIds. Throws UserError unless
/// there is one for each of the `rows` of features.
SampleIds sample_ids_of(std::int64_t batch, std::int64_t batches_per_epoch,
                        const Attachments& attachments, std::int64_t rows);

/// What a table has of each sample beside its variable.
struct SampleColumns {
  bool dual = false;
  bool moments = false;  ///< of Adam, and its count of steps
};

/// Rows of these columns: 0 where a sample has none yet, undefined where the
/// table has no such column.
struct SampleState {
  at::Tensor dual = {};
  at::Tensor mean = {};
  at::Tensor variance = {};
  at::Tensor steps = {};  ///< [N, 1, ...], int64
};

/// A variable, and its multiplier, of every sample of the training split, or of
/// an echo (batches that come several times): rows of tables, in memory whole.
/// What was kept of a sample is forgotten when an epoch has passed without it,
/// because other methods have moved the weights in between, say. Used by one
/// thread.
class SampleRows {
 public:
  /// samples: of the split; shape: of a sample's variable; the tables are
  /// "<name>.z" and so on in checkpoints. They are made when first asked for.
  /// remembered: epochs after which a row is still known; 0: not beyond its own
  /// (of an echo: the passes over it).
  SampleRows(std::int64_t samples, SampleShape shape, std::string name,
             SampleColumns columns, std::int64_t remembered = 1);

  /// The variables of these samples; `features` [N, ...], those of the blocks
  /// below, where a sample has none yet.
  at::Tensor variables(const SampleIds& ids, const at::Tensor& features) const;
  /// variables() - features; 0 where a sample has none yet.
  at::Tensor residuals(const SampleIds& ids, const at::Tensor& features) const;
  SampleState state(const SampleIds& ids) const;
  /// Keeps the rows of samples; `state` has the columns of the table.
  void keep(const SampleIds& ids, const at::Tensor& variables,
            const SampleState& state = {});

  /// "<name>.z", ".dual", ".mean", ".variance", ".steps", and "<name>.epochs",
  /// which is 0 or one more than the epoch in which the sample was kept last.
  NamedTensors tables() const;

 private:
  struct Tables {
    at::Tensor z;
    SampleState state;  // of all samples
    at::Tensor epochs;
  };

  const Tables& all() const;
  at::Tensor are_known(const SampleIds& ids) const;

  std::int64_t samples_;
  SampleShape shape_;
  std::string name_;
  SampleColumns columns_;
  std::int64_t remembered_;
  /// Ends are made for their traits alone too, and tables are large.
  mutable std::optional<Tables> tables_;
};

}  // namespace sluice
