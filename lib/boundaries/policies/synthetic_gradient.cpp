// DNI, synthetic gradients: Jaderberg et al. 2017, arXiv:1608.05343. The signal
// is what a synthesizer M_k makes of h_k alone (and of the label: cDNI). It is
// regressed on the gradient that arrives from above, which is itself what the
// block above made of its own signal (bootstrapped), or, with lam_target, of a
// blend of that with the true one: T_k = (1 - lam_target) M_k + lam_target
// J_{k+1}' T_{k+1}.
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/blocks/evaluation.h"
#include "lib/boundaries/policies/module_tensors.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "lib/boundaries/policies/unlock.h"
#include "lib/tensors/gradients.h"

namespace sluice {
namespace {

struct Options {
  std::int64_t target_delay = 0;
  std::optional<double> lam_target = {};
  bool raw_target = false;
  std::optional<OptimizerOptions> optimizer = {};
  bool unlocks = false;
};

class SyntheticGradient final : public Lower {
 public:
  SyntheticGradient(std::shared_ptr<Predictor> synthesizer, std::int64_t layer,
                    Options options)
      : synthesizer_(std::move(synthesizer)),
        attached_(*synthesizer_, "synthesizers", layer),
        options_(std::move(options)) {}

  Traits traits() const override {
    return {.cut = true,
            .own = true,
            .lower = {.learns = true,
                      .learns_by_steps = true,
                      .target_delay = options_.target_delay,
                      .lam_target = options_.lam_target},
            .upper = options_.unlocks ? UpperEnd::from_data : UpperEnd::plain};
  }

  Signal signal(const BatchContext& context) override {
    check_one(context);
    Signal signal;
    signal.gradients = {predicted(context) / scale(context)};
    if (options_.lam_target)
      signal.targets =
          targets_of(signal.gradients[0], context.target_above.empty()
                                              ? context.from_above
                                              : context.target_above);
    return signal;
  }

  /// The loss of the regression is the sum over the features of a sample (or
  /// place), averaged over the batch.
  Lesson learn(const BatchContext& context) override {
    check_one(context);
    const auto count = static_cast<double>(predictions_in(context.labels));
    const at::Tensor error = prediction_with_graph(context) -
                             context.from_above.at(0) * scale(context);
    const at::Tensor loss = error.square().sum() / count;
    ++lessons_;
    return {gradients_at(values_of(attached_.parameters), {loss}),
            loss.detach()};
  }

  NamedTensors learners() const override { return attached_.parameters; }
  NamedTensors buffers() const override { return attached_.buffers; }
  const OptimizerOptions* learners_optimizer() const override {
    return options_.optimizer ? &*options_.optimizer : nullptr;
  }
  void learners_replaced() override { kept_ = {}; }

 private:
  /// Prediction of signal(), with its graph.
  struct KeptPrediction {
    std::int64_t batch = -1;
    std::int64_t lessons = 0;  // taken before it
    at::Tensor prediction = {};
  };

  /// The regression is on the gradient times the number of labels: Adam's steps
  /// don't shrink with a target of 1/N.
  double scale(const BatchContext& context) const {
    if (options_.raw_target) return 1;
    return static_cast<double>(predictions_in(context.labels)) / context.share;
  }

  at::Tensor predict(const BatchContext& context) {
    return synthesizer_->forward(context.features[0].detach(), context.labels,
                                 context.pass);
  }

  at::Tensor predicted(const BatchContext& context) {
    if (!keeps_) {
      const at::NoGradGuard no_grad;
      return predict(context);
    }
    kept_ = {context.batch, lessons_, predict(context)};
    return kept_.prediction.detach();
  }

  /// Prediction of signal(), or a new one where the synthesizer has learned
  /// since. It always has where the target comes turns later, so keeping graphs
  /// would gain nothing there.
  at::Tensor prediction_with_graph(const BatchContext& context) {
    KeptPrediction kept = std::exchange(kept_, {});
    if (kept.batch == context.batch && kept.lessons == lessons_)
      return kept.prediction;
    if (kept.prediction.defined()) keeps_ = false;
    return predict(context);
  }

  /// What the synthesizer below learns from; empty when nothing comes from
  /// above: then none learns from it.
  Tensors targets_of(const at::Tensor& synthetic, const Tensors& above) const {
    const double lambda = *options_.lam_target;
    if (lambda == 0) return {synthetic};
    if (above.empty()) return {};
    return {synthetic * (1 - lambda) + above[0] * lambda};
  }

  static void check_one(const BatchContext& context) {
    if (context.features.size() == 1) return;
    throw UserError(
        "synthetic_gradient: the block has {} outputs; a synthesizer takes one",
        context.features.size());
  }

  std::shared_ptr<Predictor> synthesizer_;
  ModuleTensors attached_;
  Options options_;
  bool keeps_ = true;
  KeptPrediction kept_;
  std::int64_t lessons_ = 0;
};

void read_lam_target(Fields& options, std::optional<double>& lam_target) {
  constexpr const char* kText =
      "weight of the gradient from above in the target of the synthesizer "
      "below; the rest is the weight of the synthetic gradient. Above 0 the "
      "block waits for the gradient from above. Default: as in the signal, so "
      "0 without a blend";
  if (!options.has("lam_target")) {
    // Described, but left out of the resolved config.
    ConfigNode none;
    options.key("lam_target", none, "number", {.text = kText});
    return;
  }
  lam_target = 0;
  options.key("lam_target", *lam_target, {.text = kText, .min = 0, .max = 1});
}

}  // namespace

MakeBoundary configure_synthetic_gradient(Fields& options,
                                          const PlugIns& plug_ins) {
  Options chosen;
  options.key("target_delay", chosen.target_delay,
              {.text = "turns after which the synthesizer learns from a batch; "
                       "with 0 it learns before it predicts for the next "
                       "batch, so that the block waits for the one above",
               .unit = "turns",
               .min = 0,
               .max = 1});
  read_lam_target(options, chosen.lam_target);
  options.key("raw_target", chosen.raw_target,
              {.text = "train the synthesizer on the gradient itself, as "
                       "published code does, instead of on the gradient times "
                       "the batch size; with Adam it then overshoots"});
  MakePredictor make;
  options.section("synthesizer", "the network that predicts the gradient",
                  [&](Fields& fields) {
                    make = plug_ins.synthesizer(fields);
                    chosen.optimizer = read_own_optimizer(fields);
                  });
  const MakeUpper make_unlock = read_unlock(options, plug_ins);
  chosen.unlocks = make_unlock != nullptr;
  MakeBoundary ends([=](const BoundarySite& site) {
    return std::make_unique<SyntheticGradient>(make(site), site.layer, chosen);
  });
  if (make_unlock) ends.upper = make_unlock;
  return ends;
}

MethodPage describe_synthetic_gradient() {
  return {
      .source =
          "DNI, with labels cDNI: Jaderberg et al., \"Decoupled Neural "
          "Interfaces using Synthetic Gradients\", ICML 2017, "
          "arXiv:1608.05343",
      .kept =
          "the graph of the batch, until the synthesizer has answered: at "
          "once. Then its features and labels, and with target_delay = 0 the "
          "synthesizer's graph, until the gradient from above has come and "
          "the synthesizer has learned from it",
      .batch_norm = "statistics move in the forward, once per batch",
      .randomness = "one forward, one mask",
      .staleness =
          "none for the block (the signal's error is the "
          "synthesizer's). With target_delay = 0 the synthesizer learns "
          "from a batch before it is used on the next, and waits for "
          "the block above; with 1 a turn later. With `unlock` a forward "
          "doesn't wait for the blocks below either: it takes what the "
          "block's input model predicts. That model learns in the same turn, "
          "which waits for the features"};
}

}  // namespace sluice
