#include "experiments/planner/policy_work.h"

#include <algorithm>
#include <memory>

#include <ATen/ATen.h>

#include "experiments/runs/seats/answer_above.h"
#include "lib/base/by_block.h"
#include "lib/boundaries/boundary.h"
#include "lib/tensors/gradients.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/product_count.h"

namespace sluice::planner {
namespace {

/// Numbers of which no two are the same.
at::Tensor samples_of(std::int64_t count, const SampleShape& shape) {
  std::vector<std::int64_t> sizes = {count};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return at::linspace(0, 1, c10::multiply_integers(sizes)).view(sizes);
}

at::Tensor labels_of(std::int64_t count, const SampleSpec& sample) {
  if (sample.targets != Targets::classes)
    return at::zeros({count, sample.classes}, at::kFloat);
  return sample.is_text ? at::zeros({count, sample.shape.at(0)}, at::kLong)
                        : at::zeros({count}, at::kLong);
}

/// What a boundary's policy is given of a batch of so many samples.
class MadeUpBatch {
 public:
  MadeUpBatch(const Experiment& experiment, int block, std::int64_t samples)
      : experiment_(experiment),
        block_(block),
        samples_(samples),
        site_(site_of(experiment, block)),
        make_(by_block(experiment.phases.front(), block).make),
        lower_(make_.lower(site_)),
        labels_(labels_of(samples, experiment.model.sample)),
        pass_{.seed = experiment.seed, .masks = experiment.masks} {
    if (lower_->traits().upper == UpperEnd::answers)
      answer_ = answer_above(experiment, block);
  }

  PolicyWork work() {
    const BlockPlan& plan = by_block(experiment_.plans.front().blocks, block_);
    const Tensors features =
        leaves_of({samples_of(samples_, site_.features)}, true);
    const Tensors gradient = {at::ones_like(features[0])};
    PolicyWork work;
    if (is_asked(plan))
      work.signal = count_products([&] {
        const bool takes =
            plan.gradients.from_above && plan.gradients.are_merged();
        lower_->signal(context(features, takes ? gradient : Tensors()));
      });
    if (plan.lower.learns)
      work.learn = count_products([&] {
        lower_->learn(context(leaves_of(features, false), gradient));
      });
    if (lower_->traits().upper == UpperEnd::from_data)
      work.learn_input = count_products([&] { teach(gradient); });
    return work;
  }

 private:
  /// A reach may leave the block's own loss out.
  static bool is_asked(const BlockPlan& plan) {
    return plan.gradients.are_merged() ||
           std::any_of(plan.gradients.parts.begin(), plan.gradients.parts.end(),
                       [](const GradientPart& part) { return part.own; });
  }

  BatchContext context(const Tensors& features, Tensors from_above) {
    features_ = features;
    from_above_ = std::move(from_above);
    return {.features = features_,
            .labels = labels_,
            .from_above = from_above_,
            .pass = pass_,
            .attachments = attachments(),
            .answer = answer_};
  }

  at::Tensor input() const {
    return samples_of(samples_, experiment_.model.sample.shape);
  }

  Attachments attachments() const {
    Attachments all;
    for (const std::string& name : lower_->traits().lower.attachments)
      all[name] = name == kSampleIds ? rows() : input();
    return all;
  }

  /// A table of what is kept of samples may have fewer rows than the batch.
  at::Tensor rows() const {
    return at::arange(samples_).remainder(
        std::max<std::int64_t>(1, site_.samples));
  }

  void teach(const Tensors& features) const {
    const auto upper = make_.upper(site_);
    const InputContext context{.pass = pass_, .data = [&] {
                                 return Payload{{input()}, labels_};
                               }};
    upper->inputs(context, {});
    upper->learn(context, {features, labels_});
  }

  const Experiment& experiment_;
  int block_;
  std::int64_t samples_;
  BoundarySite site_;
  const MakeBoundary& make_;
  std::unique_ptr<Lower> lower_;
  at::Tensor labels_;
  Pass pass_;
  Tensors features_;
  Tensors from_above_;
  Tensors answer_;
};

}  // namespace

PolicyWork policy_work(const Experiment& experiment, int block) {
  // Products of a batch are c + a n + b n^2: c of what all samples share, b
  // where they are compared.
  constexpr std::int64_t kFew = 2;
  const PolicyWork few = MadeUpBatch(experiment, block, kFew).work();
  const PolicyWork twice = MadeUpBatch(experiment, block, 2 * kFew).work();
  const PolicyWork thrice = MadeUpBatch(experiment, block, 3 * kFew).work();
  const auto size = static_cast<double>(experiment.batch_size /
                                        experiment.micro_batches.count);
  const auto for_sample = [&](double PolicyWork::*which) {
    const auto n = static_cast<double>(kFew);
    const double step = twice.*which - few.*which;
    const double b = (thrice.*which - twice.*which - step) / (2 * n * n);
    const double a = (step - 3 * n * n * b) / n;
    const double c = few.*which - n * a - n * n * b;
    return c / size + a + b * size;
  };
  return {.signal = for_sample(&PolicyWork::signal),
          .learn = for_sample(&PolicyWork::learn),
          .learn_input = for_sample(&PolicyWork::learn_input)};
}

}  // namespace sluice::planner
