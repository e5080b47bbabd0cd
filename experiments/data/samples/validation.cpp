#include "experiments/data/samples/validation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "experiments/data/samples/some_samples.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

using Indices = std::vector<std::int64_t>;

std::int64_t samples_for(const ValidationOptions& options, std::int64_t size) {
  const auto count = std::llround(
      options.amount < 1 ? options.amount * static_cast<double>(size)
                         : options.amount);
  if (count < 1 || count >= size)
    throw UserError(
        "data.validation = {} is {} of {} training samples; give a share below "
        "1, or a number of samples, that leaves at least one for either split",
        options.amount, count, size);
  return count;
}

/// All indices; those of the validation split come first.
Indices permutation(std::int64_t size, std::int64_t seed) {
  Indices order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  KeyedRandom random(random_key(
      {static_cast<std::uint64_t>(seed), key_part("validation split")}));
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

/// Samples of a split in the split's own order.
Split in_order(const Split& split, Indices indices) {
  std::sort(indices.begin(), indices.end());
  return some_of(split, std::move(indices));
}

}  // namespace

void ValidationOptions::describe(Fields& fields) {
  fields.key("validation", amount,
             {.text = "training samples to hold back, a share below 1 or a "
                      "number of them: early_stop, checkpoint.best, halving "
                      "and drivers then judge by these instead of the test "
                      "split",
              .min = 0,
              .max = 1e9});
  if (amount > 1 && amount != std::floor(amount))
    fields.reject("validation",
                  "must be a share below 1, or a whole number of samples");
  fields.key("validation_seed", seed,
             {.text = "seed that chooses the samples to hold back; the seed "
                      "of the run has no influence on them",
              .min = 0});
}

ValidationOptions read_validation(Fields& options) {
  ValidationOptions validation;
  validation.describe(options);
  return validation;
}

DataSet with_validation(DataSet data, const ValidationOptions& options) {
  if (options.amount == 0) return data;
  const std::int64_t size = data.train.size();
  const std::int64_t count = samples_for(options, size);
  const Indices order = permutation(size, options.seed);
  data.validation =
      in_order(data.train, {order.begin(), order.begin() + count});
  data.train = in_order(data.train, {order.begin() + count, order.end()});
  return data;
}

}  // namespace sluice
