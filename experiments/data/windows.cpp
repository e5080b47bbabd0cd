#include "experiments/data/windows.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

std::int64_t offset_of(const Windows& windows, EpochKey key) {
  if (!windows.move) return 0;
  KeyedRandom random(random_key({key.seed, key_part("offset of windows"),
                                 static_cast<std::uint64_t>(key.epoch)}));
  return static_cast<std::int64_t>(
      random.below(static_cast<std::uint64_t>(windows.context)));
}

class WindowSamples final : public Samples {
 public:
  WindowSamples(const Windows& windows, ReadTokens read)
      : windows_(windows), read_(std::move(read)) {}

  std::int64_t size() const override { return windows_.count; }
  std::int64_t position(std::int64_t index, EpochKey key) const override {
    return windows_.position(index, key);
  }

  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch;
    batch.inputs = at::empty({count, windows_.context}, at::kLong);
    batch.labels = at::empty({count, windows_.context}, at::kLong);
    auto* input = batch.inputs.mutable_data_ptr<std::int64_t>();
    auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
    std::vector<std::int64_t> window(
        static_cast<std::size_t>(windows_.context) + 1);
    for (const std::int64_t index : indices) {
      read_(position(index, key), window);
      input = std::copy(window.begin(), window.end() - 1, input);
      label = std::copy(window.begin() + 1, window.end(), label);
    }
    return batch;
  }

 private:
  Windows windows_;
  ReadTokens read_;
};

}  // namespace

std::int64_t Windows::position(std::int64_t index, EpochKey key) const {
  SLUICE_CHECK(index >= 0 && index < count, "sample {} of {}", index, count);
  return begin + offset_of(*this, key) + index * context;
}

Windows training_windows(std::int64_t tokens, std::int64_t context) {
  return {.count = std::max<std::int64_t>(tokens / context - 1, 0),
          .context = context,
          .move = true};
}

Windows evaluation_windows(std::int64_t begin, std::int64_t tokens,
                           std::int64_t context) {
  return {.begin = begin,
          .count = std::max<std::int64_t>((tokens - 1) / context, 0),
          .context = context};
}

Split split_of_windows(const Windows& windows,
                       std::function<ReadTokens()> open) {
  return {windows.count, [windows, open = std::move(open)] {
            return std::make_shared<WindowSamples>(windows, open());
          }};
}

}  // namespace sluice
