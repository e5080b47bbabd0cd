#include "experiments/data/order/sample_source.h"

#include <utility>

#include <ATen/ATen.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"

namespace sluice {

at::Tensor Samples::raw(const at::Tensor&) const {
  throw UserError(
      "the head above a block needs inputs as they were before normalisation, "
      "and only images have such: choose another head");
}

Batch Samples::places(std::span<const std::int64_t>, EpochKey) const {
  throw InternalError("samples without a store of inputs have no places");
}

SampleSource::SampleSource(std::shared_ptr<const Samples> samples,
                           OrderOptions options)
    : samples_(std::move(samples)),
      seed_(options.seed),
      augmented_(options.augmented),
      raw_inputs_(options.raw_inputs),
      sample_ids_(options.sample_ids),
      order_(samples_->size(), options) {}

Batch SampleSource::batch(std::int64_t t) {
  const std::vector<std::int64_t> indices = order_.batch(t);
  Batch batch = samples_->batch(indices, key(t));
  batch.index = t;
  if (raw_inputs_) batch.raw_inputs = samples_->raw(batch.inputs);
  if (sample_ids_) batch.ids = at::tensor(order_.rows(t, indices), at::kLong);
  const auto address =
      reinterpret_cast<std::uintptr_t>(batch.inputs.const_data_ptr());
  SLUICE_CHECK(address % kAlignment == 0,
               "LibTorch's allocator gave memory off the boundary");
  return batch;
}

std::vector<std::int64_t> SampleSource::positions(std::int64_t t) {
  std::vector<std::int64_t> positions = order_.batch(t);
  for (std::int64_t& position : positions)
    position = samples_->position(position, key(t));
  return positions;
}

}  // namespace sluice
