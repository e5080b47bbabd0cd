#include "experiments/data/order/sample_order.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {

SampleOrder::SampleOrder(std::int64_t samples, OrderOptions options)
    : samples_(samples), options_(options) {
  if (samples < 1) throw UserError("the data set has no samples");
  if (options.batch_size < 1) {
    throw UserError("the batch size is {}, expected at least 1",
                    options.batch_size);
  }
  const std::int64_t full = samples / options.batch_size;
  const bool has_rest = samples % options.batch_size != 0;
  batches_per_epoch_ = full + (has_rest && !options.drop_last ? 1 : 0);
  if (batches_per_epoch_ == 0) {
    throw UserError(
        "a batch of {} can't be filled from {} samples, and drop_last leaves "
        "out what is not full",
        options.batch_size, samples);
  }
}

std::int64_t SampleOrder::epoch(std::int64_t t) const {
  SLUICE_CHECK(t >= 0, "batch {}", t);
  return options_.echo.original(t) / batches_per_epoch_;
}

std::vector<std::int64_t> SampleOrder::batch(std::int64_t t) {
  prepare(epoch(t));
  const std::int64_t begin =
      options_.echo.original(t) % batches_per_epoch_ * options_.batch_size;
  const std::int64_t end = std::min(begin + options_.batch_size, samples_);
  return {order_.begin() + begin, order_.begin() + end};
}

std::vector<std::int64_t> SampleOrder::rows(
    std::int64_t t, const std::vector<std::int64_t>& indices) const {
  if (!options_.echo.is_on()) return indices;
  std::vector<std::int64_t> rows(indices.size());
  std::iota(rows.begin(), rows.end(),
            options_.echo.place(t) * options_.batch_size);
  return rows;
}

void SampleOrder::prepare(std::int64_t epoch) {
  if (prepared_epoch_ == epoch) return;
  order_.resize(static_cast<std::size_t>(samples_));
  std::iota(order_.begin(), order_.end(), 0);
  prepared_epoch_ = epoch;
  if (!options_.shuffled) return;
  // Fisher and Yates; std::shuffle differs between standard libraries.
  KeyedRandom random(random_key({options_.seed, key_part("order of samples"),
                                 static_cast<std::uint64_t>(epoch)}));
  for (std::size_t i = order_.size() - 1; i > 0; --i) {
    std::swap(order_[i], order_[random.below(i + 1)]);
  }
}

}  // namespace sluice
