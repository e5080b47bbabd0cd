// AutoAssist (data.assist) in whole runs, against a network, a sampler and an
// assistant that are written out here.
#include <cmath>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/data/order/sample_source.h"
#include "lib/base/random.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::auto_assist_test {

constexpr double kRate = 0.1;  // the default of the optimizer

/// 300 samples: an epoch has 9 batches of 32 and one of 12.
std::string config(const std::string& assist, const std::string& lines) {
  return fmt::format(
      "turns = 30\nmodel = {{hidden = [24, 20]}}\n"
      "data = {{train = 300, test = 64, assist = {{{}}}}}\n{}",
      assist, lines);
}

const char* const kBackprop =
    "blocks = ['0', '1-']\nboundary = {policy = 'backprop'}\n";
const char* const kDelayed =
    "blocks = ['0', '1', '2-']\nboundary = {policy = 'delayed_gradient'}\n";

/// x W' + b with ReLU between them, by SGD on the mean cross entropy.
class PlainNet {
 public:
  explicit PlainNet(const NamedTensors& first) {
    std::map<std::string, at::Tensor> by_name(first.begin(), first.end());
    for (int i = 0; by_name.contains(name_of(i) + "weight"); ++i)
      layers_.push_back(
          {by_name.at(name_of(i) + "weight"), by_name.at(name_of(i) + "bias")});
  }

  /// A step; the losses of the samples before it.
  at::Tensor step(const at::Tensor& inputs, const at::Tensor& labels) {
    std::vector<at::Tensor> values = {inputs};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      at::Tensor h = values.back().mm(layers_[i].first.t()) + layers_[i].second;
      values.push_back(i + 1 == layers_.size() ? h : at::relu(h));
    }
    const at::Tensor of_class = at::log_softmax(values.back(), 1);
    const at::Tensor truth = at::one_hot(labels, of_class.size(1));
    at::Tensor g = (of_class.exp() - truth.to(at::kFloat)) /
                   static_cast<double>(labels.size(0));
    for (std::size_t i = layers_.size(); i-- > 0;) {
      if (i + 1 < layers_.size()) g = g * (values[i + 1] > 0).to(at::kFloat);
      const at::Tensor down = g.mm(layers_[i].first);
      layers_[i].first = layers_[i].first - g.t().mm(values[i]) * kRate;
      layers_[i].second = layers_[i].second - g.sum(0) * kRate;
      g = down;
    }
    return -(of_class * truth).sum(1).to(at::kDouble);
  }

  NamedTensors weights() const {
    NamedTensors all;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      all.emplace_back(name_of(static_cast<int>(i)) + "weight",
                       layers_[i].first);
      all.emplace_back(name_of(static_cast<int>(i)) + "bias",
                       layers_[i].second);
    }
    return all;
  }

 private:
  static std::string name_of(int layer) {
    return fmt::format("layers.{}.linear.", layer);
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> layers_;
};

/// Algorithm 1 of the paper with a fixed lag.
class PlainAutoAssist {
 public:
  PlainAutoAssist(const Experiment& experiment, double p0, double rate,
                  std::int64_t lag)
      : seed_(experiment.seed),
        p0_(p0),
        rate_(rate),
        lag_(lag),
        plain_(experiment.data->train.samples(),
               {.batch_size = experiment.batch_size, .seed = experiment.seed}),
        sizes_(experiment.data->train.samples(),
               {.batch_size = experiment.batch_size, .seed = experiment.seed}) {
  }

  NamedTensors train(const NamedTensors& first, std::int64_t turns) {
    const at::NoGradGuard no_grad;
    PlainNet net(first);
    for (std::int64_t t = 0; t < turns; ++t) {
      if (t >= lag_) learn(seen_.at(static_cast<std::size_t>(t - lag_)));
      LessonInputs seen = draw(sizes_.batch(t).labels.size(0));
      seen.losses = net.step(seen.inputs, seen.labels);
      seen_.push_back(seen);
    }
    return net.weights();
  }

 private:
  struct LessonInputs {
    at::Tensor inputs = {}, labels = {}, losses = {};
  };

  void learn(const LessonInputs& seen) {
    const at::Tensor x = seen.inputs.to(at::kDouble);
    begin(x.size(1));
    const at::Tensor is_hard =
        (seen.losses > seen.losses.mean()).to(at::kDouble);
    const at::Tensor classes = at::one_hot(seen.labels, 10).to(at::kDouble);
    const at::Tensor error = at::sigmoid(x.mv(w_) + classes.mv(u_)) - is_hard;
    const double step = rate_ / static_cast<double>(x.size(0));
    w_ = w_ - x.t().mv(error) * step;
    u_ = u_ - classes.t().mv(error) * step;
  }

  void begin(std::int64_t elements) {
    if (w_.defined()) return;
    w_ = at::zeros({elements}, at::kDouble);
    u_ = at::zeros({10}, at::kDouble);
  }

  LessonInputs draw(std::int64_t count) {
    std::vector<at::Tensor> inputs, labels;
    while (std::ssize(labels) < count) {
      if (waiting_.empty()) fetch();
      const auto [input, label] = waiting_.front();
      waiting_.pop_front();
      begin(input.numel());
      const double score = (input.to(at::kDouble) * w_).sum().item<double>() +
                           u_[label.item<std::int64_t>()].item<double>();
      KeyedRandom random(
          random_key({seed_, key_part("assistant's draw"), place_++}));
      if (random.uniform() >= p0_ + (1 - p0_) / (1 + std::exp(-score)))
        continue;
      inputs.push_back(input);
      labels.push_back(label);
    }
    return {.inputs = at::stack(inputs), .labels = at::stack(labels)};
  }

  void fetch() {
    const Batch batch = plain_.batch(fetched_++);
    for (std::int64_t i = 0; i < batch.labels.size(0); ++i)
      waiting_.emplace_back(batch.inputs[i].flatten(), batch.labels[i]);
  }

  std::uint64_t seed_;
  double p0_;
  double rate_;
  std::int64_t lag_;
  SampleSource plain_, sizes_;
  std::int64_t fetched_ = 0;
  std::uint64_t place_ = 0;
  std::deque<std::pair<at::Tensor, at::Tensor>> waiting_;
  std::vector<LessonInputs> seen_;
  at::Tensor w_, u_;
};

NamedTensors trained(const std::string& lines,
                     std::shared_ptr<Sink> sink = nullptr) {
  Training training(small_experiment(lines), std::move(sink));
  training.train();
  return training.weights();
}

TEST(AutoAssist, HasTheWeightsOfAPlainLoopOver30Turns) {
  for (const std::int64_t lag : {1, 3}) {
    Training training(small_experiment(config(
        fmt::format("acceptance = 0.2, learning_rate = 0.05, lag = {}", lag),
        kBackprop)));
    PlainAutoAssist plain(training.experiment, 0.2, 0.05, lag);
    const NamedTensors expected =
        plain.train(copies_of(training.weights()), 30);
    training.train();
    const double off = distance(training.weights(), expected);
    EXPECT_LT(off, 1e-4) << lag;
    const std::string deaf = "acceptance = 0.2, learning_rate = 0";
    EXPECT_GT(distance(trained(config(deaf, kBackprop)), expected), 10 * off)
        << "what it has learned decides";
  }
}

TEST(AutoAssist, AssistantOfAcceptanceOneHasTheBitsWithoutIt) {
  for (const char* lines :
       {kBackprop, kDelayed, "blocks = 1\n", "replicas = {count = 2}\n"}) {
    const NamedTensors without = trained(config("acceptance = 0", lines));
    EXPECT_EQ(difference(trained(config("acceptance = 1", lines)), without), "")
        << lines;
    EXPECT_NE(difference(trained(config("acceptance = 0.3", lines)), without),
              "")
        << lines;
  }
}

TEST(AutoAssist, IsBitForBitTheSameForAnyCut) {
  const std::string assist = "acceptance = 0.2, learning_rate = 0.05, lag = 2";
  const NamedTensors one = trained(config(assist, "blocks = 1\n"));
  EXPECT_EQ(difference(trained(config(assist, kBackprop)), one), "");
  EXPECT_NE(difference(trained(config(assist + "0", kBackprop)), one), "")
      << "with a lag of 20";
}

/// Block 1 of three applies a batch two turns after its forward.
TEST(AutoAssist, LagsAsFewTurnsAsTheScheduleAllows) {
  const auto with_lag = [](int lag) {
    return config(fmt::format("acceptance = 0.2, learning_rate = 0.05, "
                              "lag = {}",
                              lag),
                  kDelayed);
  };
  const NamedTensors least = trained(with_lag(0));
  EXPECT_EQ(difference(trained(with_lag(3)), least), "");
  EXPECT_NE(difference(trained(with_lag(4)), least), "");
}

TEST(AutoAssist, RecordsWhatItSkipped) {
  class SkipCheck final : public Sink {
   public:
    void write(const Record& record) override {
      if (record.text("kind") != "train" || record.find("skipped") == nullptr)
        return;
      EXPECT_EQ(record.integer("block"), 1);
      skipped += record.number("skipped", 0);
      passes = record.number("passes", 0);
      ++records;
    }
    double skipped = 0;
    double passes = 0;
    int records = 0;
  };
  const auto seen = std::make_shared<SkipCheck>();
  trained(config("acceptance = 0.3", kBackprop), seen);
  EXPECT_EQ(seen->records, 30);
  EXPECT_NEAR(seen->skipped / 30, 0.35, 0.15);
  EXPECT_GT(seen->passes, 3) << "in three epochs";
}

class AutoAssistRuns : public Program {
 protected:
  std::string small(const std::string& lines, const std::string& acceptance) {
    return write("c.toml",
                 "turns = 12\nbatch_size = 24\nthreads = 1\ndrain = false\n"
                 "model = {hidden = [24, 20]}\ndata = {train = 240, test = 40, "
                 "assist = {learning_rate = 0.1, acceptance = " +
                     acceptance + "}}\n" + lines);
  }
};

TEST_F(AutoAssistRuns, HaveTheSameBitsOnEveryEngine) {
  const NamedTensors reference = weights_on("virtual", small(kDelayed, "0.2"));
  for (const char* engine : {"threads", "processes"})
    EXPECT_EQ(difference(weights_on(engine, small(kDelayed, "0.2")), reference),
              "")
        << engine;
  EXPECT_NE(
      difference(weights_on("virtual", small(kDelayed, "0.3")), reference), "");
}

TEST_F(AutoAssistRuns, GoOnWithTheSameBits) {
  for (const char* lines : {kBackprop, kDelayed}) {
    const NamedTensors whole = weights_on("virtual", small(lines, "0.2"));
    const std::string part = path("part");
    const Outcome begun =
        sluice("run " + path("c.toml") +
               " engine=virtual turns=5 --overwrite --dir " + part);
    ASSERT_EQ(begun.status, 0) << begun.text;
    const Outcome resumed = sluice("run --resume " + part + " turns=12");
    ASSERT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_EQ(
        difference(load_weights(checkpoint_folder(part + "/checkpoints", 12)),
                   whole),
        "")
        << lines;
  }
}

}  // namespace sluice::auto_assist_test
