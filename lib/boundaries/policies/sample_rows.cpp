#include "lib/boundaries/policies/sample_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

struct Column {
  const char* name;
  at::Tensor SampleState::*values;
};

/// Columns of SampleState; a table without one has an undefined tensor there.
constexpr Column kColumns[] = {{"dual", &SampleState::dual},
                               {"mean", &SampleState::mean},
                               {"variance", &SampleState::variance},
                               {"steps", &SampleState::steps}};

}  // namespace

SampleIds sample_ids_of(std::int64_t batch, std::int64_t batches_per_epoch,
                        const Attachments& attachments, std::int64_t rows) {
  const auto found = attachments.find(kSampleIds);
  SLUICE_CHECK(found != attachments.end(),
               "the variables of samples want to know which they are");
  if (found->second.numel() == rows)
    return {found->second,
            batches_per_epoch > 0 ? batch / batches_per_epoch : 0};
  throw UserError(
      "a batch of {} samples has {} rows of features: variables can be of "
      "the batch only (memory = 'batch')",
      found->second.numel(), rows);
}

SampleRows::SampleRows(std::int64_t samples, SampleShape shape,
                       std::string name, SampleColumns columns,
                       std::int64_t remembered)
    : samples_(samples),
      shape_(std::move(shape)),
      name_(std::move(name)),
      columns_(columns),
      remembered_(remembered) {}

const SampleRows::Tables& SampleRows::all() const {
  if (tables_) return *tables_;
  std::vector<std::int64_t> sizes = {samples_};
  sizes.insert(sizes.end(), shape_.begin(), shape_.end());
  const auto zeros = [&] { return at::zeros(sizes, at::kFloat); };
  Tables made{
      .z = zeros(), .state = {}, .epochs = at::zeros({samples_}, at::kLong)};
  if (columns_.dual) made.state.dual = zeros();
  if (columns_.moments) {
    made.state.mean = zeros();
    made.state.variance = zeros();
    std::vector<std::int64_t> ones(sizes.size(), 1);
    ones[0] = samples_;
    made.state.steps = at::zeros(ones, at::kLong);
  }
  return tables_.emplace(std::move(made));
}

/// [N, 1, ...]: those that were kept in this epoch, or not long before.
at::Tensor SampleRows::are_known(const SampleIds& ids) const {
  std::vector<std::int64_t> sizes(shape_.size() + 1, 1);
  sizes[0] = ids.indices.numel();
  return all()
      .epochs.index_select(0, ids.indices)
      .ge(std::max<std::int64_t>(ids.epoch + 1 - remembered_, 1))
      .view(sizes);
}

at::Tensor SampleRows::variables(const SampleIds& ids,
                                 const at::Tensor& features) const {
  const at::Tensor rows =
      all().z.index_select(0, ids.indices).to(features.scalar_type());
  return at::where(are_known(ids), rows, features)
      .contiguous(features.suggest_memory_format());
}

at::Tensor SampleRows::residuals(const SampleIds& ids,
                                 const at::Tensor& features) const {
  const at::Tensor differences =
      all().z.index_select(0, ids.indices) - features;
  return at::where(are_known(ids), differences, at::zeros_like(differences))
      .contiguous(features.suggest_memory_format());
}

SampleState SampleRows::state(const SampleIds& ids) const {
  SampleState of_samples;
  for (const Column& column : kColumns) {
    const at::Tensor& table = all().state.*column.values;
    if (!table.defined()) continue;
    const at::Tensor rows = table.index_select(0, ids.indices);
    of_samples.*column.values =
        at::where(are_known(ids), rows, at::zeros_like(rows));
  }
  return of_samples;
}

void SampleRows::keep(const SampleIds& ids, const at::Tensor& variables,
                      const SampleState& state) {
  // Handles of the tables, through which the tables themselves are written.
  at::Tensor z = all().z;
  at::Tensor epochs = all().epochs;
  z.index_copy_(0, ids.indices, variables.to(at::kFloat));
  epochs.index_fill_(0, ids.indices, ids.epoch + 1);
  for (const Column& column : kColumns) {
    at::Tensor table = all().state.*column.values;
    if (table.defined())
      table.index_copy_(0, ids.indices,
                        (state.*column.values).to(table.scalar_type()));
  }
}

NamedTensors SampleRows::tables() const {
  NamedTensors named = {{name_ + ".z", all().z},
                        {name_ + ".epochs", all().epochs}};
  for (const Column& column : kColumns)
    if (const at::Tensor& table = all().state.*column.values; table.defined())
      named.emplace_back(name_ + "." + column.name, table);
  return named;
}

}  // namespace sluice
