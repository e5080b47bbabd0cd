// DNI, synthetic gradients: Jaderberg et al. 2017, arXiv:1608.05343. The signal
// is what a synthesizer M_k makes of h_k alone (and of the label: cDNI). It is
// regressed on the gradient that arrives from above, which is itself what the
// block above made of its own signal (bootstrapped).
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "lib/gradients.h"
#include "lib/policies/attached.h"
#include "lib/policies/plug_ins.h"

namespace sluice {
namespace {

class SyntheticGradient final : public Policy {
 public:
  SyntheticGradient(std::shared_ptr<Synthesizer> synthesizer,
                    std::int64_t layer, std::int64_t target_delay,
                    std::optional<OptimizerOptions> optimizer)
      : synthesizer_(std::move(synthesizer)),
        attached_(*synthesizer_, "synthesizers", layer),
        target_delay_(target_delay),
        optimizer_(std::move(optimizer)) {}

  Traits traits() const override {
    return {.cut = true,
            .own = true,
            .learns = true,
            .target_delay = target_delay_};
  }

  Signal signal(const Moment& moment) override {
    check_one(moment);
    const at::NoGradGuard no_grad;
    Signal signal;
    signal.gradients = {
        synthesizer_->forward(moment.features[0].detach(), moment.labels) /
        static_cast<double>(moment.labels.numel())};
    return signal;
  }

  /// The regression is on the gradient times the number of labels: Adam's steps
  /// don't shrink with a target of 1/N. Its loss is the sum over the features
  /// of a sample (or place), averaged over the batch.
  Lesson learn(const Moment& moment) override {
    check_one(moment);
    const auto count = static_cast<double>(moment.labels.numel());
    const at::Tensor error =
        synthesizer_->forward(moment.features[0].detach(), moment.labels) -
        moment.from_above.at(0) * count;
    const at::Tensor loss = error.square().sum() / count;
    return {gradients_at(values_of(attached_.parameters), {loss}),
            loss.detach()};
  }

  NamedTensors learners() const override { return attached_.parameters; }
  NamedTensors buffers() const override { return attached_.buffers; }
  const OptimizerOptions* learners_optimizer() const override {
    return optimizer_ ? &*optimizer_ : nullptr;
  }

 private:
  static void check_one(const Moment& moment) {
    if (moment.features.size() == 1) return;
    throw UserError(
        "synthetic_gradient: the block has {} outputs; a synthesizer takes one",
        moment.features.size());
  }

  std::shared_ptr<Synthesizer> synthesizer_;
  Attached attached_;
  std::int64_t target_delay_;
  std::optional<OptimizerOptions> optimizer_;
};

}  // namespace

MakePolicy configure_synthetic_gradient(Fields& options,
                                        const PlugIns& plug_ins) {
  std::int64_t target_delay = 0;
  options.key(
      "target_delay", target_delay,
      {.text = "after which the synthesizer learns from a batch: with 0 "
               "before it is used on the next, which makes the block "
               "wait for the one above",
       .unit = "turns",
       .min = 0,
       .max = 1});
  MakeSynthesizer make;
  std::optional<OptimizerOptions> optimizer;
  options.section(
      "synthesizer", "what predicts the gradient", [&](Fields& fields) {
        make = plug_ins.synthesizer(fields);
        if (!fields.has("optimizer")) {
          // Described, but left out of the resolved config.
          ConfigNode none;
          fields.key("optimizer", none, "table",
                     {.text = "its own, as [optimizer]; default: the block's"});
          return;
        }
        fields.section(
            "optimizer", "its own; default: the block's", [&](Fields& part) {
              optimizer.emplace();
              optimizer->describe(part);
              if (optimizer->clip_scope == ClipScope::model)
                part.reject("clip", "a synthesizer's scope is 'block'");
            });
      });
  return [=](const Site& site) {
    return std::make_unique<SyntheticGradient>(make(site), site.layer,
                                               target_delay, optimizer);
  };
}

MethodPage describe_synthetic_gradient() {
  return {
      .source =
          "DNI, with labels cDNI: Jaderberg et al., \"Decoupled Neural "
          "Interfaces using Synthetic Gradients\", ICML 2017, "
          "arXiv:1608.05343",
      .kept =
          "the graph of the batch, until the synthesizer has answered: at "
          "once. Then its features and labels, until the gradient from above "
          "has come and the synthesizer has learned from it",
      .batch_norm = "statistics move in the forward, once per batch",
      .randomness = "one forward, one mask",
      .staleness =
          "none for the block (the signal's error is the "
          "synthesizer's). With target_delay = 0 the synthesizer learns "
          "from a batch before it is used on the next, and waits for "
          "the block above; with 1 a turn later"};
}

}  // namespace sluice
