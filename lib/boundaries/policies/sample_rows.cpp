#include "lib/boundaries/policies/sample_rows.h"

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
              .has_z = at::zeros({samples_}, at::kLong)};
  if (has_dual_) made.dual = at::zeros(sizes, at::kFloat);
  return tables_.emplace(std::move(made));
}

/// [N, 1, ...]
at::Tensor SampleRows::are_known(const at::Tensor& ids) const {
  std::vector<std::int64_t> sizes(shape_.size() + 1, 1);
  sizes[0] = ids.numel();
  return all().has_z.index_select(0, ids).view(sizes).to(at::kBool);
}

at::Tensor SampleRows::variables(const at::Tensor& ids,
                                 const at::Tensor& features) const {
  const at::Tensor rows =
      all().z.index_select(0, ids).to(features.scalar_type());
  return at::where(are_known(ids), rows, features)
      .contiguous(features.suggest_memory_format());
}

at::Tensor SampleRows::residuals(const at::Tensor& ids,
                                 const at::Tensor& features) const {
  const at::Tensor differences = all().z.index_select(0, ids) - features;
  return at::where(are_known(ids), differences, at::zeros_like(differences))
      .contiguous(features.suggest_memory_format());
}

at::Tensor SampleRows::duals(const at::Tensor& ids) const {
  return has_dual_ ? all().dual.index_select(0, ids) : at::Tensor();
}

void SampleRows::keep(const at::Tensor& ids, const at::Tensor& variables,
                      const at::Tensor& duals) {
  // Handles: the tables themselves are written.
  at::Tensor z = all().z;
  at::Tensor has_z = all().has_z;
  z.index_copy_(0, ids, variables.to(at::kFloat));
  has_z.index_fill_(0, ids, 1);
  if (!has_dual_) return;
  at::Tensor dual = all().dual;
  dual.index_copy_(0, ids, duals.to(at::kFloat));
}

NamedTensors SampleRows::tables() const {
  NamedTensors named = {{name_ + ".z", all().z},
                        {name_ + ".has_z", all().has_z}};
  if (has_dual_) named.emplace_back(name_ + ".dual", all().dual);
  return named;
}

}  // namespace sluice
