// Blends of sources, and the source that is a shadow: it trains and is measured
// against the others, and moves nothing.
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "auxiliary_heads/heads.h"
#include "experiments/config/files/toml.h"
#include "experiments/data/order/sample_source.h"
#include "lib/base/error.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::blend_test {

using testing::HasSubstr;
using torch::autograd::grad;

constexpr const char* kNet =
    "blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";
constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

/// Back-propagation with a synthesizer: "shadow = true" or "weight = 0".
std::string beside(const std::string& how,
                   const std::string& synthesizer = "hidden = 1, width = 16") {
  return "boundary = {policy = 'blend', sources = [{policy = 'backprop'}, "
         "{policy = 'synthetic_gradient', " +
         how + ", synthesizer = {" + synthesizer + "}}]}\n";
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

class RecordList final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "train") records.push_back(record);
  }
  std::vector<Record> records;
};

TEST(Shadow, LeavesTheNetworkWithTheBitsOfBackprop) {
  const std::string rest = kNet + rate(0.1);
  EXPECT_EQ(difference(only(trained(rest + beside("shadow = true")), "layers."),
                       trained(rest + kBackprop)),
            "");
  EXPECT_GT(distance(only(trained(rest + beside("weight = 0.5")), "layers."),
                     trained(rest + kBackprop)),
            1e-4)
      << "with a weight it is heard";
}

TEST(Shadow, LearnsAsASourceOfWeightZeroDoes) {
  const std::string rest = kNet + rate(0.1);
  const NamedTensors shadow = trained(rest + beside("shadow = true"));
  EXPECT_EQ(difference(shadow, trained(rest + beside("weight = 0"))), "");
  const NamedTensors first =
      Training(small_experiment(rest + beside("shadow = true"))).weights();
  EXPECT_GT(distance(only(shadow, "synthesizers."), first), 1e-3);
}

TEST(Shadow, ShadowOfALocalLossTrainsItsHead) {
  const std::string lines =
      kNet + rate(0.1) +
      "boundary = {policy = 'blend', sources = [{policy = 'backprop'}, "
      "{policy = 'local_loss', shadow = true}]}\n";
  const NamedTensors shadow = trained(lines);
  EXPECT_EQ(difference(only(shadow, "layers."),
                       trained(kNet + rate(0.1) + kBackprop)),
            "");
  EXPECT_GT(distance(only(shadow, "heads."),
                     Training(small_experiment(lines)).weights()),
            1e-3);
}

TEST(Shadow, IsMeasuredInTheRecordsOfTraining) {
  const auto kept = std::make_shared<RecordList>();
  Training training(
      small_experiment(kNet + rate(0.1) + beside("shadow = true")), kept);
  training.train();
  ASSERT_EQ(kept->records.size(), 60U);
  for (const Record& record : kept->records)
    for (const char* figure :
         {"shadow_cosine", "shadow_norm_ratio", "shadow_sign_agreement"})
      EXPECT_EQ(record.find(figure) != nullptr, record.number("block", 0) < 3)
          << figure;
}

/// A linear top with squared loss has a gradient that a linear synthesizer can
/// represent: the figures say that it has found it.
TEST(Shadow, FiguresGoToOneForASynthesizerThatFindsTheGradient) {
  const auto kept = std::make_shared<RecordList>();
  Training training(
      small_experiment(std::string("turns = 1500\nblocks = ['0', '1']\n"
                                   "model = {hidden = [12]}\n"
                                   "loss = {name = 'mean_squared_error'}\n") +
                       rate(0) +
                       beside("shadow = true",
                              "hidden = 0, label = true, optimizer = {name "
                              "= 'adam', lr = 0.01}")),
      kept);
  training.train();
  std::vector<double> cosines;
  for (const Record& record : kept->records)
    if (record.number("block", 0) == 1)
      cosines.push_back(record.number("shadow_cosine", -1));
  EXPECT_EQ(cosines.front(), 0) << "it begins with zeros";
  EXPECT_GT(cosines.back(), 0.99);
}

/// Answers what a test says.
at::Tensor& told() {
  static at::Tensor answer;
  return answer;
}

class ToldSynthesizer final : public Predictor {
 public:
  ToldSynthesizer() { weight_ = register_parameter("weight", at::zeros({1})); }
  at::Tensor forward(const at::Tensor&, const at::Tensor& labels,
                     const Pass&) override {
    return told() * static_cast<double>(labels.numel()) + weight_;
  }

 private:
  at::Tensor weight_;
};

MakePredictor configure_told(Fields&) {
  return
      [](const BoundarySite&) { return std::make_shared<ToldSynthesizer>(); };
}

std::unique_ptr<Lower> blend(const std::string& sources) {
  const ConfigNode config =
      parse_toml("sources = [" + sources + "]\n", "test.toml");
  Fields fields(&config, "boundary");
  BoundarySite site;
  site.features = {6};
  site.classes = 3;
  return find_row(policies(), "blend", "policy")
      .make.configure(fields, {heads(), configure_told})
      .lower(site);
}

std::map<std::string, double> figures_for(const at::Tensor& shadow,
                                          const at::Tensor& from_above) {
  told() = shadow;
  const auto policy = blend(
      "{policy = 'backprop', weight = 0.5}, {policy = 'synthetic_gradient', "
      "shadow = true}");
  const Tensors features = {at::zeros({4, 6}).requires_grad_()};
  const at::Tensor labels = at::zeros({4}, at::kLong);
  const Tensors above = {from_above};
  const Signal signal = policy->signal(
      {.features = features, .labels = labels, .from_above = above});
  EXPECT_TRUE(signal.gradients[0].equal(from_above * 0.5));
  return {signal.figures.begin(), signal.figures.end()};
}

TEST(Shadow, FiguresAreThoseOfAPlainComputation) {
  const at::Generator generator = Pass{}.generator("gradients");
  const at::Tensor shadow = at::randn({4, 6}, generator);
  const at::Tensor above = at::randn({4, 6}, generator);
  double dot = 0;
  double left = 0;
  double right = 0;
  int agree = 0;
  for (int i = 0; i < 24; ++i) {
    const double a = shadow.flatten()[i].item<double>();
    const double b = 0.5 * above.flatten()[i].item<double>();
    dot += a * b;
    left += a * a;
    right += b * b;
    agree += (a > 0) == (b > 0) ? 1 : 0;
  }
  auto figures = figures_for(shadow, above);
  EXPECT_NEAR(figures["shadow_cosine"], dot / std::sqrt(left * right), 1e-5);
  EXPECT_NEAR(figures["shadow_norm_ratio"], std::sqrt(left / right), 1e-5);
  EXPECT_NEAR(figures["shadow_sign_agreement"], agree / 24.0, 1e-6);
}

TEST(Shadow, FiguresAreOneForAnOracle) {
  const at::Tensor above = at::randn({4, 6}, Pass{}.generator("gradients"));
  auto figures = figures_for(above * 0.5, above);
  EXPECT_NEAR(figures["shadow_cosine"], 1, 1e-6);
  EXPECT_NEAR(figures["shadow_norm_ratio"], 1, 1e-6);
  EXPECT_EQ(figures["shadow_sign_agreement"], 1);
}

TEST(Shadow, ShadowOfTheGradientFromAboveIsRefused) {
  try {
    blend(
        "{policy = 'local_loss'}, {policy = 'delayed_gradient', shadow = "
        "true}");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("must make a gradient of its own"));
  }
}

/// Two blocks of a linear layer each, in plain autograd and SGD: block 1
/// applies at turn t half the gradient of batch t - 1, at the weights of its
/// forward, 0.3 of its head's and 0.2 of its synthesizer's, both as they are at
/// turn t; the synthesizer learns from that batch after it.
class ThreeSources {
 public:
  ThreeSources(const NamedTensors& first, double rate) : rate_(rate) {
    for (const auto& [name, tensor] : first)
      weights_[name] = tensor.detach().clone().requires_grad_();
  }

  void turn(const Batch* batch) {
    Flight now;
    if (batch) {
      now.own = {copy("layers.0.linear.weight"), copy("layers.0.linear.bias")};
      now.h = at::relu(
          at::linear(batch->inputs.flatten(1), now.own[0], now.own[1]));
      now.labels = batch->labels;
    }
    if (last_.h.defined()) apply(last_);
    if (batch) {
      const at::Tensor h = now.h.detach().requires_grad_();
      const at::Tensor loss =
          at::cross_entropy_loss(linear("layers.1.linear", h), now.labels);
      now.from_above = grad({loss}, {h}, {}, true)[0];
      step("layers.1.linear", {loss});
    }
    last_ = now;
  }

  NamedTensors weights() const { return {weights_.begin(), weights_.end()}; }

 private:
  struct Flight {
    Tensors own;
    at::Tensor h;
    at::Tensor labels;
    at::Tensor from_above;
  };

  at::Tensor copy(const std::string& name) const {
    return weights_.at(name).detach().clone().requires_grad_();
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return at::linear(x, weights_.at(name + ".weight"),
                      weights_.at(name + ".bias"));
  }
  at::Tensor predict(const at::Tensor& h) const {
    return linear("synthesizers.0.last",
                  at::relu(linear("synthesizers.0.linear1", h)));
  }
  void move(const std::string& name, const at::Tensor& gradient) {
    const at::NoGradGuard no_grad;
    at::_fused_sgd_({weights_.at(name).variable_data()}, {gradient}, {}, 0, 0,
                    rate_, 0, false, false, true);
  }
  void step(const std::string& name, const Tensors& loss) {
    const Tensors gradients =
        grad(loss, {weights_.at(name + ".weight"), weights_.at(name + ".bias")},
             {}, true);
    move(name + ".weight", gradients[0]);
    move(name + ".bias", gradients[1]);
  }
  void apply(const Flight& flight) {
    const auto count = static_cast<double>(flight.labels.numel());
    const at::Tensor h = flight.h.detach().requires_grad_();
    const at::Tensor local =
        at::cross_entropy_loss(linear("heads.0.classifier", h), flight.labels);
    const at::Tensor signal = flight.from_above * 0.5 +
                              grad({local}, {h}, {}, true)[0] * 0.3 +
                              predict(h).detach() / count * 0.2;
    const Tensors own = grad({flight.h}, flight.own, {signal});
    move("layers.0.linear.weight", own[0]);
    move("layers.0.linear.bias", own[1]);
    step("heads.0.classifier", {local});
    const at::Tensor error =
        predict(flight.h.detach()) - flight.from_above * count;
    const at::Tensor loss = error.square().sum() / count;
    const Tensors lesson = grad({loss}, synthesizer(), {}, true);
    for (std::size_t i = 0; i < kSynthesizer.size(); ++i)
      move(kSynthesizer[i], lesson[i]);
  }
  Tensors synthesizer() const {
    Tensors all;
    for (const std::string& name : kSynthesizer)
      all.push_back(weights_.at(name));
    return all;
  }
  const std::vector<std::string> kSynthesizer = {
      "synthesizers.0.linear1.weight", "synthesizers.0.linear1.bias",
      "synthesizers.0.last.weight", "synthesizers.0.last.bias"};

  double rate_;
  std::map<std::string, at::Tensor> weights_;
  Flight last_;
};

std::string three_sources(double lr) {
  return "blocks = ['0', '1']\nmodel = {hidden = [24]}\n" + rate(lr) +
         "boundary = {policy = 'blend', sources = [{policy = "
         "'delayed_gradient', weight = 0.5}, {policy = 'local_loss', weight = "
         "0.3}, {policy = 'synthetic_gradient', weight = 0.2, synthesizer = "
         "{hidden = 1, width = 16}}]}\n";
}

TEST(Blend, BlendOfADelayedALocalAndASyntheticGradientIsTheirSum) {
  const Training start(small_experiment(three_sources(0.1)));
  ThreeSources oracle(start.weights(), 0.1);
  SampleSource source(start.experiment.data->train.samples(),
                      {.batch_size = start.experiment.batch_size,
                       .seed = start.experiment.seed});
  for (std::int64_t turn = 0; turn < start.experiment.length.turns; ++turn) {
    const Batch batch = source.batch(turn);
    oracle.turn(&batch);
  }
  oracle.turn(nullptr);
  EXPECT_EQ(difference(trained(three_sources(0.1)), oracle.weights()), "");
}

TEST(Blend, BlendOfThreeSourcesHasTheGradientOfEach) {
  const NamedTensors all = trained(three_sources(0.1));
  for (const char* weight : {"weight = 0.5", "weight = 0.3", "weight = 0.2"}) {
    std::string without = three_sources(0.1);
    without.replace(without.find(weight), std::string(weight).size(),
                    "weight = 0.1");
    EXPECT_GT(distance(only(all, "layers.0."), trained(without)), 1e-5)
        << weight;
  }
}

}  // namespace sluice::blend_test
