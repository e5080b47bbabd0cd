// DNI: the labels D1-D9 are those of the specification (methods, section 1.7).
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "auxiliary_heads/heads.h"
#include "auxiliary_heads/predictors/predictors.h"
#include "experiments/data/order/sample_source.h"
#include "lib/base/by_block.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::synthetic_gradient_test {

constexpr const char* kNet =
    "blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";
constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

std::string dni(const std::string& synthesizer, int target_delay = 0) {
  return "boundary = {policy = 'synthetic_gradient', target_delay = " +
         std::to_string(target_delay) + ", synthesizer = {" + synthesizer +
         "}}\n";
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return training.weights();
}

NamedTensors only(const NamedTensors& all, const std::string& prefix) {
  NamedTensors chosen;
  for (const auto& named : all)
    if (named.first.starts_with(prefix)) chosen.push_back(named);
  return chosen;
}

/// What a policy was shown and what it answered, by batch.
struct PolicyAnswers {
  std::map<std::int64_t, at::Tensor> features;
  std::map<std::int64_t, at::Tensor> signals;
  std::map<std::int64_t, at::Tensor> targets;
  std::map<std::int64_t, double> losses;
};

class RecordingPolicy final : public Lower {
 public:
  RecordingPolicy(std::unique_ptr<Lower> policy,
                  std::shared_ptr<PolicyAnswers> seen)
      : policy_(std::move(policy)), seen_(std::move(seen)) {}
  Traits traits() const override { return policy_->traits(); }
  Signal signal(const BatchContext& context) override {
    Signal signal = policy_->signal(context);
    seen_->features[context.batch] = context.features[0].detach().clone();
    seen_->signals[context.batch] = signal.gradients[0].clone();
    return signal;
  }
  Lesson learn(const BatchContext& context) override {
    seen_->targets[context.batch] = context.from_above[0].clone();
    Lesson lesson = policy_->learn(context);
    seen_->losses[context.batch] = lesson.loss.item<double>();
    return lesson;
  }
  NamedTensors learners() const override { return policy_->learners(); }
  NamedTensors buffers() const override { return policy_->buffers(); }
  const OptimizerOptions* learners_optimizer() const override {
    return policy_->learners_optimizer();
  }

 private:
  std::unique_ptr<Lower> policy_;
  std::shared_ptr<PolicyAnswers> seen_;
};

void watch(Experiment& experiment, int boundary,
           std::shared_ptr<PolicyAnswers> seen) {
  MakeLower& make = by_block(experiment.phases[0], boundary).make.lower;
  make = [make, seen](const BoundarySite& site) -> std::unique_ptr<Lower> {
    return std::make_unique<RecordingPolicy>(make(site), seen);
  };
}

/// Predicts the gradient that it was given: an oracle, when that is the truth.
class SignalOracle final : public Lower {
 public:
  explicit SignalOracle(std::map<std::int64_t, at::Tensor> signals)
      : signals_(std::move(signals)) {}
  Traits traits() const override {
    return {.cut = true, .own = true, .lower = {.learns = true}};
  }
  Signal signal(const BatchContext& context) override {
    Signal signal;
    signal.gradients = {signals_.at(context.batch)};
    return signal;
  }
  /// The truth is given, so the targets are the truth as well.
  Lesson learn(const BatchContext& context) override {
    EXPECT_TRUE(context.from_above.at(0).equal(signals_.at(context.batch)));
    return {};
  }

 private:
  std::map<std::int64_t, at::Tensor> signals_;
};

TEST(SyntheticGradient, D1_WithThePerfectSynthesizerIsBackprop) {
  Experiment experiment = small_experiment(kNet + rate(0.1) + kBackprop);
  std::vector<std::shared_ptr<PolicyAnswers>> seen;
  for (int boundary : {1, 2}) {
    seen.push_back(std::make_shared<PolicyAnswers>());
    watch(experiment, boundary, seen.back());
  }
  Training backprop(experiment);
  backprop.train();

  Experiment cut = small_experiment(kNet + rate(0.1) +
                                    "boundary = {policy = 'local_loss'}\n");
  for (std::size_t i = 0; i < 2; ++i)
    cut.phases[0][i].make = [signals = seen[i]->signals](const BoundarySite&) {
      return std::make_unique<SignalOracle>(signals);
    };
  Training oracle(cut);
  oracle.train();
  EXPECT_EQ(difference(oracle.weights(), backprop.weights()), "");
}

std::string bp_lambda(double lambda) {
  return "boundary = {policy = 'blend', sources = [{policy = "
         "'synthetic_gradient', weight = " +
         std::to_string(1 - lambda) +
         ", synthesizer = {hidden = 1, width = 16}}, {policy = 'backprop', "
         "weight = " +
         std::to_string(lambda) + "}]}\n";
}

TEST(SyntheticGradient, D2_ALambdaOfOneIsBackpropAndOfZeroIsDni) {
  const std::string rest = kNet + rate(0.1);
  const NamedTensors one = trained(rest + bp_lambda(1));
  EXPECT_EQ(difference(only(one, "layers."), trained(rest + kBackprop)), "");
  const NamedTensors synthesizers = only(one, "synthesizers.");
  EXPECT_GT(distance(synthesizers,
                     Training(small_experiment(rest + bp_lambda(1))).weights()),
            1e-3)
      << "in the shadow it learns all the same";
  const NamedTensors plain = trained(rest + dni("hidden = 1, width = 16"));
  EXPECT_EQ(difference(trained(rest + bp_lambda(0)), plain), "");
  EXPECT_GT(distance(only(trained(rest + bp_lambda(0.5)), "layers."), plain),
            1e-4);
}

TEST(SyntheticGradient, D3_TheFirstSignalIsExactlyZero) {
  for (const char* synthesizer :
       {"hidden = 0", "hidden = 1", "hidden = 2", "hidden = 0, label = true",
        "hidden = 2, label = true"}) {
    const std::string lines = std::string("turns = 1\n") + kNet + rate(0.1);
    Experiment experiment = small_experiment(lines + dni(synthesizer));
    const auto seen = std::make_shared<PolicyAnswers>();
    watch(experiment, 1, seen);
    Training training(experiment);
    const NamedTensors before = copies_of(training.weights());
    training.train();
    EXPECT_EQ(seen->signals.at(0).abs().max().item<double>(), 0);
    const NamedTensors after = training.weights();
    for (const char* lower : {"layers.0.", "layers.1."})
      EXPECT_EQ(difference(only(after, lower), only(before, lower)), "");
    EXPECT_EQ(difference(only(after, "layers.2."),
                         only(trained(lines + kBackprop), "layers.2.")),
              "");
    // Only the top's synthesizer has a target other than zero so far.
    EXPECT_NE(difference(only(after, "synthesizers.1."),
                         only(before, "synthesizers.1.")),
              "");
  }
}

TEST(SyntheticGradient, D4_OfOneBlockIsBackprop) {
  const std::string rest = "blocks = 1\nmodel = {hidden = [24]}\n" + rate(0.1);
  EXPECT_EQ(
      difference(trained(rest + dni("hidden = 1")), trained(rest + kBackprop)),
      "");
}

TEST(SyntheticGradient, D5_TheSynthesizersLossLeavesTheBlocksAlone) {
  Training training(small_experiment(
      kNet + rate(0) +
      dni("hidden = 1, optimizer = {name = 'sgd', lr = 0.01}")));
  const NamedTensors before = copies_of(training.weights());
  training.train();
  EXPECT_EQ(
      difference(only(training.weights(), "layers."), only(before, "layers.")),
      "");
  EXPECT_GT(distance(only(training.weights(), "synthesizers."), before), 1e-4);
}

TEST(SyntheticGradient, D6_ALinearSynthesizerFindsALinearGradient) {
  // The top is linear and its loss squared, so the gradient at h is linear in
  // h and the label.
  const auto final_loss = [](const char* synthesizer) {
    Experiment experiment = small_experiment(
        std::string("turns = 1500\nblocks = ['0', '1']\n") +
        "model = {hidden = [12]}\nloss = {name = 'mean_squared_error'}\n" +
        rate(0) +
        dni(std::string(synthesizer) +
            ", optimizer = {name = 'adam', lr = 0.01}"));
    const auto seen = std::make_shared<PolicyAnswers>();
    watch(experiment, 1, seen);
    Training training(experiment);
    training.train();
    EXPECT_GT(seen->losses.at(0), 1e-2);
    return seen->losses.rbegin()->second / seen->losses.at(0);
  };
  EXPECT_LT(final_loss("hidden = 0, label = true"), 5e-3);
  EXPECT_GT(final_loss("hidden = 0"), 5e-2) << "without the label it can't";
}

TEST(SyntheticGradient, D8_TheTopTargetIsTheTrueGradient) {
  for (const int target_delay : {0, 1}) {
    Experiment experiment =
        small_experiment(kNet + rate(0) + dni("hidden = 1", target_delay));
    const auto seen = std::make_shared<PolicyAnswers>();
    watch(experiment, 2, seen);
    Training training(experiment);
    const NamedTensors top = training.block(3).weights();
    training.train();
    SampleSource source(
        experiment.data->train.samples(),
        {.batch_size = experiment.batch_size, .seed = experiment.seed});
    ASSERT_EQ(seen->targets.size(), 20U);
    for (const auto& [batch, target] : seen->targets) {
      const at::Tensor h = seen->features.at(batch).requires_grad_();
      const at::Tensor loss =
          at::cross_entropy_loss(at::linear(h, top[0].second, top[1].second),
                                 source.batch(batch).labels);
      EXPECT_TRUE(torch::autograd::grad({loss}, {h})[0].equal(target)) << batch;
    }
  }
}

at::Tensor values_at(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [each, tensor] : tensors)
    if (each == name) return tensor.detach().clone();
  throw std::out_of_range(name);
}

/// The oracle: three linear blocks with two synthesizers of one hidden layer,
/// in plain autograd and plain SGD.
NamedTensors plain_dni(const std::string& lines, double lr, int target_delay,
                       bool raw_target = false) {
  const Training start(small_experiment(lines));
  const NamedTensors first = start.weights();
  const Experiment& experiment = start.experiment;
  const auto leaf = [&](const std::string& name) {
    return values_at(first, name).requires_grad_();
  };
  std::vector<Tensors> blocks;
  std::vector<Tensors> synthesizers;
  for (const std::string k : {"0", "1", "2"})
    blocks.push_back({leaf("layers." + k + ".linear.weight"),
                      leaf("layers." + k + ".linear.bias")});
  for (const std::string k : {"0", "1"}) {
    const std::string name = "synthesizers." + k + ".";
    synthesizers.push_back(
        {leaf(name + "linear1.weight"), leaf(name + "linear1.bias"),
         leaf(name + "last.weight"), leaf(name + "last.bias")});
  }
  const auto predict = [](const Tensors& m, const at::Tensor& h) {
    return at::linear(at::relu(at::linear(h, m[0], m[1])), m[2], m[3]);
  };
  const auto step = [lr](Tensors& weights, Tensors gradients) {
    const at::NoGradGuard no_grad;
    Tensors plain;
    for (const at::Tensor& weight : weights)
      plain.push_back(weight.variable_data());
    at::_fused_sgd_(plain, gradients, {}, 0, 0, lr, 0, false, false, true);
  };
  struct Late {
    Tensors features;
    Tensors targets;
  };
  std::vector<Late> waiting;
  const auto learn = [&](const Late& late) {
    for (std::size_t k = 0; k < 2; ++k) {
      const auto count = static_cast<double>(late.features[k].size(0));
      const at::Tensor error = predict(synthesizers[k], late.features[k]) -
                               late.targets[k] * (raw_target ? 1 : count);
      step(synthesizers[k],
           torch::autograd::grad({error.square().sum() / count},
                                 synthesizers[k]));
    }
  };
  SampleSource source(
      experiment.data->train.samples(),
      {.batch_size = experiment.batch_size, .seed = experiment.seed});
  for (std::int64_t t = 0; t < experiment.length.turns; ++t) {
    const Batch batch = source.batch(t);
    const auto count = static_cast<double>(batch.labels.numel());
    Late late{Tensors(2), Tensors(2)};
    at::Tensor input = batch.inputs.flatten(1);
    for (std::size_t k = 0; k < 3; ++k) {
      const at::Tensor below = input.detach().requires_grad_();
      at::Tensor h = at::linear(below, blocks[k][0], blocks[k][1]);
      Tensors wanted = blocks[k];
      wanted.push_back(below);
      Tensors gradients;
      if (k < 2) {
        h = at::relu(h);
        late.features[k] = h.detach();
        const at::NoGradGuard no_grad;
        const at::Tensor synthetic =
            predict(synthesizers[k], h) / (raw_target ? 1 : count);
        const at::AutoGradMode with_grad(true);
        gradients = torch::autograd::grad({h}, wanted, {synthetic});
      } else {
        gradients = torch::autograd::grad(
            {at::cross_entropy_loss(h, batch.labels)}, wanted);
      }
      if (k > 0) late.targets[k - 1] = gradients.back();
      gradients.pop_back();
      step(blocks[k], gradients);
      input = h.detach();
    }
    waiting.push_back(late);
    if (std::ssize(waiting) > target_delay) {
      learn(waiting.front());
      waiting.erase(waiting.begin());
    }
  }
  for (const Late& late : waiting) learn(late);
  NamedTensors all;
  for (const std::string k : {"0", "1", "2"}) {
    const Tensors& block = blocks.at(std::stoul(k));
    all.emplace_back("layers." + k + ".linear.weight", block[0]);
    all.emplace_back("layers." + k + ".linear.bias", block[1]);
    if (k == "2") continue;
    const Tensors& m = synthesizers.at(std::stoul(k));
    const std::string name = "synthesizers." + k + ".";
    all.emplace_back(name + "linear1.weight", m[0]);
    all.emplace_back(name + "linear1.bias", m[1]);
    all.emplace_back(name + "last.weight", m[2]);
    all.emplace_back(name + "last.bias", m[3]);
  }
  return all;
}

TEST(SyntheticGradient, FollowsItsEquations) {
  for (const int target_delay : {0, 1}) {
    const std::string lines =
        kNet + rate(0.05) + dni("hidden = 1, width = 16", target_delay);
    EXPECT_EQ(difference(trained(lines), plain_dni(lines, 0.05, target_delay)),
              "")
        << target_delay;
  }
}

TEST(SyntheticGradient, MayLearnAsPublishedCodeDoes) {
  const std::string lines =
      kNet + rate(0.001) +
      "boundary = {policy = 'synthetic_gradient', raw_target = true, "
      "synthesizer = {hidden = 1, width = 16, random_bias = true}}\n";
  EXPECT_EQ(difference(trained(lines), plain_dni(lines, 0.001, 0, true)), "");
  EXPECT_GT(distance(only(trained(lines), "layers."),
                     plain_dni(lines, 0.001, 0, false)),
            1e-6);
}

TEST(SyntheticGradient,
     SyntheticGradientOfARandomBiasIsFirstTheSameForAllSamples) {
  for (const char* net :
       {kNet,
        "blocks = ['0', '1-']\nmodel = {name = 'conv3', channels = 8}\n"}) {
    Experiment experiment =
        small_experiment(std::string("turns = 1\n") + net + rate(0.1) +
                         dni("hidden = 2, label = true, random_bias = true"));
    const auto seen = std::make_shared<PolicyAnswers>();
    watch(experiment, 1, seen);
    Training(experiment).train();
    const at::Tensor& first = seen->signals.at(0);
    EXPECT_GT(first.abs().max().item<double>(), 0);
    EXPECT_TRUE(first.equal(first[0].unsqueeze(0).expand_as(first)));
  }
}

TEST(SyntheticGradient, ATargetDelayChangesTheResult) {
  const std::string rest = kNet + rate(0.05);
  EXPECT_GT(distance(trained(rest + dni("hidden = 1", 0)),
                     trained(rest + dni("hidden = 1", 1))),
            1e-5);
}

std::unique_ptr<Lower> synthetic_policy(const SampleShape& features) {
  const ConfigNode none;
  Fields fields(&none, "boundary");
  BoundarySite site;
  site.features = features;
  site.classes = 3;
  return find_row(policies(), "synthetic_gradient", "policy")
      .make.configure(fields, {heads(), configure_synthesizer})
      .lower(site);
}

/// What a synthesizer, trained for ten steps of Adam on one batch that is
/// repeated `times` in itself, makes of it: the gradient times the batch size.
at::Tensor scaled_signal(std::int64_t times) {
  const auto policy = synthetic_policy({6});
  const at::Generator generator = Pass{}.generator("features");
  const at::Tensor h = at::randn({8, 6}, generator);
  const at::Tensor target = at::randn({8, 6}, generator) / 8;
  const at::Tensor labels = at::arange(8).remainder(3);
  const auto repeated = [&](const at::Tensor& of) {
    return at::cat(
        std::vector<at::Tensor>(static_cast<std::size_t>(times), of));
  };
  const Tensors features = {repeated(h)};
  const Tensors from_above = {repeated(target) / static_cast<double>(times)};
  const at::Tensor all_labels = repeated(labels);
  const BatchContext context{.features = features,
                             .labels = all_labels,
                             .from_above = from_above,
                             .pass = {}};
  OptimizerOptions adam;
  adam.name = "adam";
  const auto optimizer = make_optimizer(adam, policy->learners());
  for (int i = 0; i < 10; ++i) {
    const Lesson lesson = policy->learn(context);
    const at::NoGradGuard no_grad;
    optimizer->step(lesson.gradients, 0.01);
  }
  return policy->signal(context).gradients[0].narrow(0, 0, 8) *
         static_cast<double>(all_labels.numel());
}

TEST(SyntheticGradient, D9_TheBatchSizeDoesNotMatter) {
  const at::Tensor once = scaled_signal(1);
  EXPECT_GT(once.abs().max().item<double>(), 0.1);
  EXPECT_LT((once - scaled_signal(2)).abs().max().item<double>(), 1e-4);
}

TEST(SyntheticGradient, TrainsOnMaps) {
  const std::string conv =
      "blocks = ['0', '1-']\nmodel = {name = 'conv3', channels = 8}\n" +
      rate(0.01);
  for (const char* synthesizer : {"hidden = 0", "hidden = 2, label = true"}) {
    Training training(small_experiment(
        conv + dni(std::string(synthesizer) +
                   ", optimizer = {name = 'adam', lr = 1e-3}")));
    const NamedTensors before = copies_of(training.weights());
    training.train();
    const NamedTensors last = only(training.weights(), "synthesizers.0.last.");
    EXPECT_EQ(last.size(), 2U);
    EXPECT_GT(distance(last, before), 1e-4);
  }
}

TEST(SyntheticGradient, LearnsPlaceByPlaceOnTexts) {
  const auto policy = synthetic_policy({5, 6});
  const at::Generator generator = Pass{}.generator("features");
  const Tensors features = {at::randn({4, 5, 6}, generator)};
  const Tensors from_above = {at::randn({4, 5, 6}, generator) / 20};
  const at::Tensor labels = at::zeros({4, 5}, at::kLong);
  const BatchContext context{.features = features,
                             .labels = labels,
                             .from_above = from_above,
                             .pass = {}};
  OptimizerOptions adam;
  adam.name = "adam";
  const auto optimizer = make_optimizer(adam, policy->learners());
  std::vector<double> losses;
  for (int i = 0; i < 200; ++i) {
    const Lesson lesson = policy->learn(context);
    losses.push_back(lesson.loss.item<double>());
    const at::NoGradGuard no_grad;
    optimizer->step(lesson.gradients, 0.003);
  }
  EXPECT_LT(losses.back(), 0.05 * losses.front());
}

}  // namespace sluice::synthetic_gradient_test
