#include "experiments/data/sets/windows.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include "experiments/data/samples/input_store.h"
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

/// Tokens that inputs may have, from the first one of the split on.
std::int64_t tokens_of_inputs(const Windows& windows) {
  return windows.count * windows.context +
         (windows.move ? windows.context - 1 : 0);
}

/// Read in pieces: a split may be as large as the memory.
InputTable table_of(const Windows& windows, const ReadTokens& read) {
  constexpr std::int64_t kPiece = 1 << 20;
  const std::int64_t count = tokens_of_inputs(windows);
  const at::Tensor rows = at::empty({count}, at::kInt);
  auto* row = rows.mutable_data_ptr<std::int32_t>();
  std::vector<std::int64_t> piece;
  for (std::int64_t done = 0; done < count; done += std::ssize(piece)) {
    piece.resize(static_cast<std::size_t>(std::min(kPiece, count - done)));
    read(windows.begin + done, piece);
    for (const std::int64_t token : piece)
      *row++ = static_cast<std::int32_t>(token);
  }
  return {.rows = rows,
          .steps = at::arange(windows.context, at::kLong).unsqueeze(0)};
}

class WindowSamples final : public Samples {
 public:
  WindowSamples(const Windows& windows, ReadTokens read)
      : windows_(windows),
        read_(std::move(read)),
        store_(std::make_shared<const InputStore>(
            tokens_of_inputs(windows) * std::int64_t{sizeof(std::int32_t)},
            [windows, read = read_] { return table_of(windows, read); })) {}

  std::int64_t size() const override { return windows_.count; }
  std::int64_t position(std::int64_t index, EpochKey key) const override {
    return windows_.position(index, key);
  }

  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    const std::int64_t count = std::ssize(indices);
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

  std::shared_ptr<const InputStore> input_store(bool) const override {
    return store_;
  }
  Batch places(std::span<const std::int64_t> indices,
               EpochKey key) const override {
    const std::int64_t count = std::ssize(indices);
    Batch batch;
    batch.inputs = at::empty({count}, at::kLong);
    batch.labels = at::empty({count, windows_.context}, at::kLong);
    auto* place = batch.inputs.mutable_data_ptr<std::int64_t>();
    auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      const std::int64_t first = position(index, key);
      *place++ = first - windows_.begin;
      read_(first + 1, {label, static_cast<std::size_t>(windows_.context)});
      label += windows_.context;
    }
    return batch;
  }

 private:
  Windows windows_;
  ReadTokens read_;
  std::shared_ptr<const InputStore> store_;
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
