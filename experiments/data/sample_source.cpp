#include "experiments/data/sample_source.h"

#include <cstddef>
#include <functional>
#include <numeric>

#include <ATen/ops/empty.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

std::vector<std::array<float, 256>> normalised_values(const DataSet& data_set) {
  std::vector<std::array<float, 256>> values(data_set.mean.size());
  for (std::size_t c = 0; c < values.size(); ++c) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const double scaled = static_cast<double>(byte) / 255.0;
      values[c][byte] =
          static_cast<float>((scaled - data_set.mean[c]) / data_set.std[c]);
    }
  }
  return values;
}

std::size_t elements(const std::vector<std::int64_t>& shape) {
  return static_cast<std::size_t>(std::accumulate(
      shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

}  // namespace

SampleSource::SampleSource(const DataSet& data_set, const Samples& samples,
                           OrderOptions options)
    : data_set_(data_set),
      samples_(samples),
      order_(samples.size(), options),
      values_(normalised_values(data_set)),
      pixels_(elements(data_set.shape)) {
  const auto channels = static_cast<std::size_t>(data_set.shape.at(0));
  SLUICE_CHECK(
      data_set.mean.size() == channels && data_set.std.size() == channels,
      "{} channels, {} means and {} standard deviations", channels,
      data_set.mean.size(), data_set.std.size());
}

Batch SampleSource::batch(std::int64_t t) {
  const std::vector<std::int64_t> chosen = order_.batch(t);
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(chosen.size())};
  sizes.insert(sizes.end(), data_set_.shape.begin(), data_set_.shape.end());
  Batch batch = {.index = t,
                 .inputs = at::empty(sizes, at::kFloat),
                 .labels = at::empty({sizes[0]}, at::kLong)};
  float* input = batch.inputs.mutable_data_ptr<float>();
  auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
  SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(input) % kAlignment == 0,
               "LibTorch's allocator gave memory off the boundary");
  for (const std::int64_t index : chosen) {
    read(index, input);
    input += pixels_.size();
    *label++ = samples_.label(index);
  }
  return batch;
}

void SampleSource::read(std::int64_t index, float* input) {
  samples_.read(index, pixels_);
  const std::size_t plane = pixels_.size() / values_.size();
  const std::uint8_t* pixel = pixels_.data();
  for (const std::array<float, 256>& values : values_) {
    for (std::size_t i = 0; i < plane; ++i) *input++ = values[*pixel++];
  }
}

}  // namespace sluice
