#include "lib/boundaries/policies/sample_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace sluice {

SampleRows::SampleRows(std::int64_t samples, SampleShape shape,
                       std::string name, bool has_dual)
    : samples_(samples),
      shape_(std::move(shape)),
      name_(std::move(name)),
      has_dual_(has_dual) {}

const SampleRows::Tables& SampleRows::all() const {
  if (tables_) return *tables_;
  std::vector<std::int64_t> sizes = {samples_};
  sizes.insert(sizes.end(), shape_.begin(), shape_.end());
  Tables made{.z = at::zeros(sizes, at::kFloat),
              .dual = {},
              .epochs = at::zeros({samples_}, at::kLong)};
  if (has_dual_) made.dual = at::zeros(sizes, at::kFloat);
  return tables_.emplace(std::move(made));
}

/// [N, 1, ...]: those that were kept in this epoch or the one before.
at::Tensor SampleRows::are_known(const SampleIds& ids) const {
  std::vector<std::int64_t> sizes(shape_.size() + 1, 1);
  sizes[0] = ids.indices.numel();
  return all()
      .epochs.index_select(0, ids.indices)
      .ge(std::max<std::int64_t>(ids.epoch, 1))
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

at::Tensor SampleRows::duals(const SampleIds& ids) const {
  if (!has_dual_) return {};
  const at::Tensor rows = all().dual.index_select(0, ids.indices);
  return at::where(are_known(ids), rows, at::zeros_like(rows));
}

void SampleRows::keep(const SampleIds& ids, const at::Tensor& variables,
                      const at::Tensor& duals) {
  // Handles of the tables, through which the tables themselves are written.
  at::Tensor z = all().z;
  at::Tensor epochs = all().epochs;
  z.index_copy_(0, ids.indices, variables.to(at::kFloat));
  epochs.index_fill_(0, ids.indices, ids.epoch + 1);
  if (!has_dual_) return;
  at::Tensor dual = all().dual;
  dual.index_copy_(0, ids.indices, duals.to(at::kFloat));
}

NamedTensors SampleRows::tables() const {
  NamedTensors named = {{name_ + ".z", all().z},
                        {name_ + ".epochs", all().epochs}};
  if (has_dual_) named.emplace_back(name_ + ".dual", all().dual);
  return named;
}

}  // namespace sluice
