#include "experiments/data/change/mixup.h"

#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include <ATen/ops/one_hot.h>
#include <ATen/ops/tensor.h>

#include "experiments/data/samples/changed_samples.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

/// Gamma(shape, 1): Marsaglia and Tsang 2000, "A simple method for generating
/// gamma variables"; a shape below 1 by that of shape + 1, as they say.
double gamma_number(KeyedRandom& random, double shape) {
  if (shape < 1)
    return gamma_number(random, shape + 1) *
           std::pow(1 - random.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - random.uniform();  // above 0
    if (std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

double beta_number(KeyedRandom& random, double alpha) {
  const double a = gamma_number(random, alpha);
  const double b = gamma_number(random, alpha);
  // With a tiny alpha one is nearly always rounded to 0, and both may be.
  return a + b > 0 ? a / (a + b) : 1;
}

at::Tensor drawn_order(KeyedRandom& random, std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[random.below(i + 1)]);
  return at::tensor(order, at::kLong);
}

class MixedSamples final : public ChangedSamples {
 public:
  MixedSamples(std::shared_ptr<const Samples> of, double alpha,
               std::int64_t classes)
      : ChangedSamples(std::move(of)), alpha_(alpha), classes_(classes) {}

 private:
  Batch changed(Batch batch, std::span<const std::int64_t> indices,
                EpochKey key) const override {
    if (!key.augmented || indices.empty()) return batch;
    KeyedRandom random(random_key(
        {key.seed, key_part("mixup"), static_cast<std::uint64_t>(key.epoch),
         static_cast<std::uint64_t>(indices.front())}));
    const double share = beta_number(random, alpha_);
    const at::Tensor order = drawn_order(random, std::ssize(indices));
    const auto mixed = [&](const at::Tensor& values) {
      const at::Tensor others = values.index_select(0, order).mul_(1 - share);
      return values.mul(share).add_(others);
    };
    batch.inputs = mixed(batch.inputs);
    batch.labels = mixed(at::one_hot(batch.labels, classes_).to(at::kFloat));
    return batch;
  }

  double alpha_;
  std::int64_t classes_;
};

}  // namespace

void Mixup::describe(Fields& fields) {
  fields.key("mixup", alpha,
             {.text = "alpha of mixup: each training batch is mixed with "
                      "itself in another order, inputs and labels, by a share "
                      "drawn from Beta(alpha, alpha); 0: not",
              .min = 0,
              .max = 100});
}

DataSet with_mixup(DataSet data, const Mixup& mixup) {
  if (mixup.alpha == 0) return data;
  if (data.sample.is_text || data.sample.targets != Targets::classes)
    throw UserError(
        "data.mixup = {} mixes the classes of images, and the targets of this "
        "data set are {}: leave it out",
        mixup.alpha, data.sample.is_text ? "tokens" : "numbers");
  const Split train = data.train;
  const std::int64_t classes = data.sample.classes;
  data.train = {train.size(), [train, alpha = mixup.alpha, classes] {
                  return std::make_shared<MixedSamples>(train.samples(), alpha,
                                                        classes);
                }};
  data.sample.targets = Targets::shares;
  data.varies = true;
  return data;
}

}  // namespace sluice
