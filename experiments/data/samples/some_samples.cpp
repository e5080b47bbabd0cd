#include "experiments/data/samples/some_samples.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "experiments/data/samples/samples.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

using Indices = std::vector<std::int64_t>;

class SomeSamples final : public Samples {
 public:
  SomeSamples(std::shared_ptr<const Samples> all, Indices indices)
      : all_(std::move(all)), indices_(std::move(indices)) {}

  std::int64_t size() const override { return std::ssize(indices_); }

  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    return all_->batch(indices_of(indices), key);
  }

  std::shared_ptr<const InputStore> input_store(bool augmented) const override {
    return all_->input_store(augmented);
  }
  Batch places(std::span<const std::int64_t> indices,
               EpochKey key) const override {
    return all_->places(indices_of(indices), key);
  }

  at::Tensor raw(const at::Tensor& inputs) const override {
    return all_->raw(inputs);
  }

  std::int64_t position(std::int64_t index, EpochKey key) const override {
    return all_->position(index_of(index), key);
  }

 private:
  Indices indices_of(std::span<const std::int64_t> indices) const {
    Indices of_all;
    of_all.reserve(indices.size());
    for (const std::int64_t index : indices) of_all.push_back(index_of(index));
    return of_all;
  }
  std::int64_t index_of(std::int64_t index) const {
    return indices_.at(static_cast<std::size_t>(index));
  }

  std::shared_ptr<const Samples> all_;
  Indices indices_;
};

}  // namespace

Split some_of(const Split& split, std::vector<std::int64_t> indices) {
  const std::int64_t size = std::ssize(indices);
  return {size, [split, indices = std::move(indices)] {
            return std::make_shared<SomeSamples>(split.samples(), indices);
          }};
}

std::vector<std::int64_t> spread_over(std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> indices;
  indices.reserve(static_cast<std::size_t>(count));
  KeyedRandom random(key_part("spread"));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * size / count;
    const std::int64_t end = (i + 1) * size / count;
    indices.push_back(begin + static_cast<std::int64_t>(random.below(
                                  static_cast<std::uint64_t>(end - begin))));
  }
  return indices;
}

}  // namespace sluice
