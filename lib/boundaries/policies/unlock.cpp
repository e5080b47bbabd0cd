#include "lib/boundaries/policies/unlock.h"

#include <map>
#include <memory>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/boundaries/policies/module_tensors.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/gradients.h"

namespace sluice {
namespace {

at::Tensor input_loss(const at::Tensor& predicted, const at::Tensor& features) {
  const at::Tensor error = predicted.to(at::kFloat) - features.to(at::kFloat);
  return error.square().sum() / static_cast<double>(features.size(0));
}

class InputModelEnd final : public Upper {
 public:
  InputModelEnd(std::shared_ptr<Predictor> model, const BoundarySite& site,
                std::optional<OptimizerOptions> optimizer)
      : model_(std::move(model)),
        attached_(*model_, "input_models", site.layer),
        optimizer_(std::move(optimizer)),
        boundary_(site.block) {}

  Payload inputs(const InputContext& context,
                 const std::function<Payload()>& /*next*/) override {
    Payload data = context.data();
    InputPrediction predicted{.inputs = data.features.at(0),
                              .labels = on_device(data.labels, context.device),
                              .pass = context.pass,
                              .changes = changes_};
    predicted.features = predict(predicted);
    data.features = {predicted.features.detach()};
    predicted_[context.batch] = std::move(predicted);
    return data;
  }

  Lesson learn(const InputContext& context,
               const Payload& from_below) override {
    auto kept = predicted_.extract(context.batch);
    SLUICE_CHECK(!kept.empty(), "block {} has no forward of batch {}",
                 boundary_ + 1, context.batch);
    InputPrediction predicted = std::move(kept.mapped());
    check(from_below.features, predicted.features, context.batch);
    // Lessons from other batches, or other replicas, have changed the input
    // model since this batch's forward, so the kept graph is of old weights:
    // predict again.
    if (predicted.changes != changes_) predicted.features = predict(predicted);
    const at::Tensor loss =
        input_loss(predicted.features, from_below.features[0]);
    ++changes_;
    return {gradients_at(values_of(attached_.parameters), {loss}),
            loss.detach(), "input_loss"};
  }

  NamedTensors learners() const override { return attached_.parameters; }
  NamedTensors buffers() const override { return attached_.buffers; }
  const OptimizerOptions* learners_optimizer() const override {
    return optimizer_ ? &*optimizer_ : nullptr;
  }
  void learners_replaced() override { ++changes_; }
  std::int64_t kept_bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& [batch, predicted] : predicted_)
      bytes += bytes_of({predicted.features});
    return bytes;
  }

 private:
  /// The input model's prediction for a batch, with its graph, until the model
  /// learns from the batch.
  struct InputPrediction {
    at::Tensor inputs;
    at::Tensor labels;
    Pass pass = {};
    std::int64_t changes = 0;  // of the weights, before it
    at::Tensor features = {};
  };

  at::Tensor predict(const InputPrediction& batch) {
    return model_->forward(batch.inputs, batch.labels, batch.pass);
  }

  void check(const Tensors& features, const at::Tensor& predicted,
             std::int64_t batch) const {
    if (features.size() != 1)
      throw UserError(
          "block {}: {} tensors of features come from below, and an input "
          "model predicts one: leave out the unlock of boundary {}",
          boundary_ + 1, features.size(), boundary_);
    if (features[0].sizes() != predicted.sizes())
      throw UserError(
          "block {}: its input model predicted [{}] for batch {}, but the "
          "block below sent [{}]",
          boundary_ + 1, fmt::join(predicted.sizes(), ", "), batch,
          fmt::join(features[0].sizes(), ", "));
  }

  std::shared_ptr<Predictor> model_;
  ModuleTensors attached_;
  std::optional<OptimizerOptions> optimizer_;
  std::int64_t boundary_;
  std::int64_t changes_ = 0;                           // of its weights
  std::map<std::int64_t, InputPrediction> predicted_;  // by batch
};

}  // namespace

std::unique_ptr<Upper> make_input_model_end(
    std::shared_ptr<Predictor> model, const BoundarySite& site,
    const std::optional<OptimizerOptions>& optimizer) {
  return std::make_unique<InputModelEnd>(std::move(model), site, optimizer);
}

std::optional<OptimizerOptions> read_own_optimizer(Fields& options) {
  constexpr const char* kText =
      "an optimizer of its own, with the keys and defaults of [optimizer]; "
      "without this table, that of the block";
  if (!options.has("optimizer")) {
    // Described, but left out of the resolved config.
    ConfigNode none;
    options.key("optimizer", none, "table", {.text = kText});
    return std::nullopt;
  }
  OptimizerOptions own;
  options.section("optimizer", kText, [&](Fields& part) {
    own.describe(part);
    if (own.clip_scope == ClipScope::model)
      part.reject("clip", "its scope can only be 'block' here");
    if (own.correct)
      part.reject("correction", "what this trains is never stale");
  });
  return own;
}

MakeUpper read_unlock(Fields& options, const PlugIns& plug_ins) {
  if (!options.has("unlock")) {
    ConfigNode none;
    options.key("unlock", none, "table",
                {.text = "the block above trains on what an input model "
                         "predicts, from the data, of the features that it "
                         "would get, so that its forward waits for no block "
                         "below; the model learns from the features when they "
                         "have come. {hidden, width, label, optimizer} as in "
                         "`synthesizer`"});
    return nullptr;
  }
  MakePredictor make;
  std::optional<OptimizerOptions> optimizer;
  options.section("unlock", "what predicts the input of the block above",
                  [&](Fields& fields) {
                    if (plug_ins.input_model == nullptr)
                      options.reject("unlock", "there are no input models");
                    make = plug_ins.input_model(fields);
                    optimizer = read_own_optimizer(fields);
                  });
  return [=](const BoundarySite& site) {
    return make_input_model_end(make(site), site, optimizer);
  };
}

}  // namespace sluice
