#include "lib/weights/weight_versions.h"

#include <algorithm>

#include "lib/weights/block_weights.h"

namespace sluice {

bool WeightVersions::is_held(const std::shared_ptr<Block>& twin) {
  return twin.use_count() > 1;
}

/// A twin whose weights are of no version: the caller says which.
std::shared_ptr<Block> WeightVersions::unused() {
  const auto found = std::find_if(
      twins_.begin(), twins_.end(),
      [&](const auto& twin) { return !is_held(twin) && twin.get() != today_; });
  if (found != twins_.end()) return *found;
  twins_.push_back(std::make_shared<Block>(block_.twin()));
  twins_.back()->share_buffers(block_);
  return twins_.back();
}

std::shared_ptr<Block> WeightVersions::today() {
  for (const auto& twin : twins_)
    if (twin.get() == today_) return twin;
  const std::shared_ptr<Block> twin = unused();
  twin->share_weights(block_);
  today_ = twin.get();
  return twin;
}

std::shared_ptr<Block> WeightVersions::copy_of(const Tensors& weights) {
  const std::shared_ptr<Block> twin = unused();
  overwrite_weights(weights, *twin);
  return twin;
}

Tensors WeightVersions::next() {
  const auto now =
      std::find_if(twins_.begin(), twins_.end(),
                   [&](const auto& twin) { return twin.get() == today_; });
  if (now == twins_.end() || !is_held(*now)) return {};
  const std::shared_ptr<Block> twin = unused();
  today_ = twin.get();
  Tensors storage;
  for (const auto& [name, parameter] : twin->parameters())
    storage.push_back(parameter.variable_data());
  return storage;
}

std::int64_t WeightVersions::held_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& twin : twins_)
    if (is_held(twin) && twin.get() != today_)
      bytes += bytes_of(values_of(twin->parameters()));
  return bytes;
}

}  // namespace sluice
