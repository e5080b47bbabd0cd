#include <set>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/runs/seats/seat_sources.h"
#include "lib/base/by_block.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::forward_forward_test {

constexpr const char* kNet =
    "blocks = ['0', '1', '2']\n"
    "boundary = {policy = 'local_loss', head = {name = 'forward_forward'}}\n";
constexpr const char* kSmall =
    "model = {name = 'ff_mlp', hidden = [64, 48, 40]}\n"
    "loss = {name = 'goodness', threshold = 9}\n";

Experiment experiment_of(const std::string& lines) {
  return small_experiment(kNet + lines);
}

TEST(LabelPairs, DifferInALabelThatIsWrong) {
  const Experiment experiment = experiment_of(kSmall);
  SampleSource plain(experiment.data->train.samples(),
                     {.batch_size = 32, .seed = experiment.seed});
  const auto source = training_source(experiment);
  std::set<std::int64_t> steps;
  for (const std::int64_t t : {0, 1, 2, 3}) {
    const Batch pairs = source->batch(t);
    const Batch batch = plain.batch(t);
    ASSERT_EQ(pairs.inputs.sizes(), (SampleShape{32, 2, 784}));
    EXPECT_EQ(pairs.labels.count_nonzero().item<std::int64_t>(), 0);
    const at::Tensor written = pairs.inputs.slice(2, 0, 10).argmax(2);
    EXPECT_TRUE(at::equal(written.select(1, 0), batch.labels));
    const at::Tensor step =
        (written.select(1, 1) - batch.labels + 10).remainder(10);
    for (std::int64_t i = 0; i < 32; ++i)
      steps.insert(step[i].item<std::int64_t>());
    EXPECT_TRUE(at::equal(pairs.inputs.select(1, 1).slice(1, 10),
                          batch.inputs.flatten(1).slice(1, 10)));
  }
  EXPECT_EQ(steps, (std::set<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

/// Gradients of the first turn from the formula: log(1 + exp(theta - G)) for
/// the right label, log(1 + exp(G - theta)) for the wrong one, of each layer by
/// itself.
TEST(ForwardForward, EveryLayerLearnsItsOwnGoodness) {
  Training training(experiment_of(std::string(kSmall) + "turns = 1\n"));
  at::Tensor x = training_source(training.experiment)->batch(0).inputs;
  std::vector<Tensors> expected;
  for (int block = 1; block <= 3; ++block) {
    const NamedTensors weights = copies_of(training.block(block).weights());
    const at::Tensor weight = at::Tensor(weights[0].second).requires_grad_();
    const at::Tensor bias = at::Tensor(weights[1].second).requires_grad_();
    const at::Tensor scale = x.square().mean(2, true).sqrt();
    const at::Tensor h = at::relu(at::linear(x / scale, weight, bias));
    const at::Tensor goodness = h.square().sum(2);
    const at::Tensor loss = (at::log1p(at::exp(9 - goodness.select(1, 0))) +
                             at::log1p(at::exp(goodness.select(1, 1) - 9)))
                                .mean();
    loss.backward();
    expected.push_back({weight.grad(), bias.grad()});
    x = h.detach();
  }
  Applications applied = training.train_and_record();
  for (int block = 1; block <= 3; ++block) {
    const Tensors& found = applied[block].at(0).gradients;
    for (const std::size_t i : {0, 1}) {
      const at::Tensor& gradient = by_block(expected, block)[i];
      EXPECT_GT(gradient.abs().max().item<double>(), 0);
      EXPECT_TRUE(at::allclose(found.at(i), gradient, 1e-4, 1e-7))
          << "block " << block;
    }
  }
}

class Accuracies final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "evaluation")
      last = record.number("accuracy", 0);
  }
  double last = 0;
};

TEST(ForwardForward, LearnsDigitsFarAboveChance) {
  const auto sink = std::make_shared<Accuracies>();
  Training training(
      experiment_of("model = {name = 'ff_mlp', hidden = [128, 128, 128]}\n"
                    "loss = {name = 'goodness', threshold = 128}\n"
                    "data = {train = 1000, test = 200, difficulty = 0.5}\n"
                    "optimizer = {name = 'adam', lr = 0.003}\n"
                    "turns = 480\n"),
      sink);
  training.train();
  EXPECT_GT(sink->last, 0.6);
}

}  // namespace sluice::forward_forward_test
