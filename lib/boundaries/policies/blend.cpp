// signal = sum over sources of weight x source: a bit of the global gradient on
// top of a local loss, say. One vector-Jacobian product of the blended signal
// is taken, and its result goes down. A head always trains on its own loss with
// weight 1; so does the source that is only a shadow.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/plug_in.h"
#include "lib/boundaries/policies/plug_ins.h"

namespace sluice {
namespace {

struct WeightedPolicy {
  double weight = 1;
  bool shadow = false;  // trains, and is measured against the others
  std::unique_ptr<Lower> policy;
};

bool same_way_down(const Traits& left, const Traits& right) {
  return left.delay == right.delay && left.weights == right.weights &&
         left.order == right.order;
}

class Blend final : public Lower {
 public:
  explicit Blend(std::vector<WeightedPolicy> sources)
      : sources_(std::move(sources)) {}

  Traits traits() const override {
    Traits blended{.cut = true, .from_above = false};
    for (const WeightedPolicy& source : sources_) {
      const Traits traits = source.policy->traits();
      // Backprop of weight 0 is never used; a synthesizer's target would be.
      if (source.weight == 0 && !traits.cut) continue;
      if (!traits.cut && traits.reach.blocks != kUnbounded)
        throw UserError("a blend can't hold a source with a reach");
      blended.own = blended.own || traits.own || traits.cut;
      blended.from_above = blended.from_above || traits.from_above;
      if (traits.lower.learns)
        blended.lower.learns_by_steps =
            traits.lower.learns_by_steps &&
            (blended.lower.learns_by_steps || !blended.lower.learns);
      blended.lower.learns = blended.lower.learns || traits.lower.learns;
      for (const std::string& name : traits.lower.attachments)
        blended.lower.attachments.push_back(name);
      if (traits.upper == UpperEnd::answers)
        throw UserError(
            "a blend can't hold a head that follows the layer above (man): "
            "weights come down its boundary, and no gradients");
      if (traits.lower.publishes)
        throw UserError(
            "a blend can't hold an auxiliary variable: the block above would "
            "train on what the other sources know nothing of");
      if (traits.inbox.buffer)
        throw UserError("a blend can't hold a source with a buffer");
      blended.lower.target_delay =
          std::max(blended.lower.target_delay, traits.lower.target_delay);
      if (traits.lower.lam_target)
        blended.lower.lam_target = traits.lower.lam_target;
      if (traits.upper == UpperEnd::from_data)
        throw UserError(
            "a blend can't hold a source with an unlock: a gradient from above "
            "would be that of another input");
      if (source.weight == 0 || traits.cut) continue;
      if (!blended.cut && !same_way_down(blended, traits))
        throw UserError(
            "a blend's sources that take the gradient from above must have the "
            "same delay, weights, order and statistics");
      blended.cut = false;
      blended.delay = traits.delay;
      blended.weights = traits.weights;
      blended.order = traits.order;
    }
    return blended;
  }

  Signal signal(const BatchContext& context) override {
    Signal blended;
    blended.gradients.resize(context.features.size());
    std::vector<Tensors> shadows;
    Tensors lam_targets;
    for (const WeightedPolicy& source : sources_) {
      if (source.weight == 0 && !source.policy->traits().cut) continue;
      const Signal part = source.policy->signal(context);
      if (source.shadow) shadows.push_back(part.gradients);
      for (std::size_t i = 0; i < part.gradients.size(); ++i)
        add(part.gradients[i], source.weight, blended.gradients[i]);
      if (!part.targets.empty()) lam_targets = part.targets;
      add_targets(source, part, context, blended.targets);
      blended.parameter_gradients.insert(blended.parameter_gradients.end(),
                                         part.parameter_gradients.begin(),
                                         part.parameter_gradients.end());
      if (!blended.loss.defined()) {
        blended.loss = part.loss;
        blended.logits = part.logits;
      }
    }
    if (!lam_targets.empty()) blended.targets = lam_targets;
    for (std::size_t i = 0; i < shadows.size(); ++i)
      for (auto& figure :
           figures_of(likeness(shadows[i], blended.gradients),
                      i == 0 ? "shadow_" : fmt::format("shadow{}_", i + 1)))
        blended.figures.push_back(std::move(figure));
    return blended;
  }

  Tensors passed(const Tensors& from_above) override {
    Tensors blended(from_above.size());
    for (const WeightedPolicy& source : sources_) {
      if (source.policy->traits().cut) continue;
      const Tensors part = source.policy->passed(from_above);
      for (std::size_t i = 0; i < part.size(); ++i)
        add(part[i], source.weight, blended[i]);
    }
    return blended;
  }

  Lesson learn(const BatchContext& context) override {
    Lesson all;
    for (const WeightedPolicy& source : sources_) {
      if (!source.policy->traits().lower.learns) continue;
      Lesson one = source.policy->learn(context);
      all.gradients.insert(all.gradients.end(), one.gradients.begin(),
                           one.gradients.end());
      if (!all.loss.defined()) all.loss = one.loss;
    }
    return all;
  }

  NamedTensors parameters() const override {
    return collect(&Lower::parameters);
  }
  NamedTensors learners() const override { return collect(&Lower::learners); }
  const OptimizerOptions* learners_optimizer() const override {
    for (const WeightedPolicy& source : sources_)
      if (source.policy->learners_optimizer() != nullptr)
        return source.policy->learners_optimizer();
    return nullptr;
  }
  void learners_replaced() override {
    for (const WeightedPolicy& source : sources_)
      source.policy->learners_replaced();
  }
  NamedTensors buffers() const override { return collect(&Lower::buffers); }
  NamedTensors copied() const override { return collect(&Lower::copied); }
  NamedTensors constants(const Tensors& features,
                         const at::Tensor& labels) override {
    NamedTensors all;
    for (const WeightedPolicy& source : sources_)
      for (auto& named : source.policy->constants(features, labels))
        all.push_back(std::move(named));
    return all;
  }

 private:
  /// A weight of 1 adds the very bits of the source.
  static void add(const at::Tensor& gradient, double weight, at::Tensor& sum) {
    if (!gradient.defined() || weight == 0) return;
    const at::Tensor scaled = weight == 1 ? gradient : gradient * weight;
    sum = sum.defined() ? sum + scaled : scaled;
  }

  /// Weighted sum of the synthesizers' targets, where these come from above
  /// beside the gradients.
  static void add_targets(const WeightedPolicy& source, const Signal& part,
                          const BatchContext& context, Tensors& sums) {
    if (context.target_above.empty()) return;
    const Tensors& terms = source.policy->traits().cut
                               ? part.gradients
                               : source.policy->passed(context.target_above);
    sums.resize(terms.size());
    for (std::size_t i = 0; i < terms.size(); ++i)
      add(terms[i], source.weight, sums[i]);
  }

  NamedTensors collect(NamedTensors (Lower::*which)() const) const {
    NamedTensors all;
    for (const WeightedPolicy& source : sources_)
      for (auto& named : (source.policy.get()->*which)())
        all.push_back(std::move(named));
    return all;
  }

  std::vector<WeightedPolicy> sources_;
};

/// Names of parameters tell heads apart by their layer and members only.
void check_names(const Blend& blend) {
  std::set<std::string> names;
  NamedTensors all = blend.parameters();
  for (auto& named : blend.learners()) all.push_back(std::move(named));
  for (const auto& [name, parameter] : all)
    if (!names.insert(name).second)
      throw UserError(
          "a blend can't hold two sources that both train '{}': give them "
          "heads of different kinds, or keep one of them",
          name);
}

}  // namespace

MakeBoundary configure_blend(Fields& options, const PlugIns& plug_ins) {
  struct Maker {
    double weight;
    bool shadow;
    MakeBoundary make;
  };
  std::vector<Maker> makers;
  options.list(
      "sources", "the policies to blend",
      [&](Fields& fields, std::int64_t index) {
        double weight = 1;
        std::string name = "backprop";
        bool shadow = false;
        fields.key("weight", weight, {.text = "of this source's gradient"});
        fields.key("shadow", shadow,
                   {.text = "train it and measure its gradient against "
                            "that of the others, without applying it"});
        if (shadow) weight = 0;
        const PolicyRow& row =
            choose(fields, "policy", policies(), name, "policy");
        if (name == "blend")
          fields.reject("policy", "a blend can't hold a blend");
        MakeBoundary make = row.make.configure(fields, plug_ins);
        if (index >= 0) makers.push_back({weight, shadow, std::move(make)});
      });
  const bool some_weight =
      std::any_of(makers.begin(), makers.end(),
                  [](const Maker& source) { return source.weight != 0; });
  if (!some_weight)
    options.reject("sources",
                   "a blend needs at least one source of weight other than 0");
  return [makers](const BoundarySite& site) {
    std::vector<WeightedPolicy> sources;
    for (const Maker& maker : makers) {
      sources.push_back({maker.weight, maker.shadow, maker.make.lower(site)});
      if (maker.shadow && !sources.back().policy->traits().cut)
        throw UserError(
            "a blend's shadow must make a gradient of its own (local_loss, "
            "synthetic_gradient), not take the one from above");
    }
    auto blend = std::make_unique<Blend>(std::move(sources));
    check_names(*blend);
    return blend;
  };
}

MethodPage describe_blend() {
  return {
      .source =
          "a weighted sum of other policies' signals; with backprop and "
          "synthetic_gradient it is BP(lambda): Czarnecki et al. 2017, "
          "arXiv:1703.00522",
      .kept =
          "what the source that takes the gradient from above keeps; without "
          "one the graph of the batch",
      .batch_norm = "as that source does",
      .randomness =
          "as that source does; all sources see the same features of "
          "the same batch",
      .staleness =
          "that source's. A boundary is a cut only if no source of "
          "weight other than 0 takes the gradient from above",
      .example =
          "sources = [{policy = 'backprop', weight = 0.1}, {policy = "
          "'local_loss', weight = 0.9}]"};
}

}  // namespace sluice
