// Targets that are numbers, from the files to the records of a run, against the
// same in plain LibTorch.
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"
#include "lib/metrics/accuracy_text.h"
#include "lib/metrics/record.h"
#include "tests/experiments/data/packed_test_files.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::regression_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kInputs = 6;

class Records final : public Sink {
 public:
  void write(const Record& record) override {
    if (record.text("kind") == "evaluation") evaluation = record;
    if (record.text("kind") == "train") train = record;
  }
  Record evaluation;
  Record train;
};

class Regression : public DataFolder {
 protected:
  Regression() {
    write_split("train", 96);
    write_split("test", 40);
  }

  /// "data = {...}" of it, and the other keys.
  std::string config(const std::string& keys,
                     const std::string& data = "") const {
    return fmt::format(
        "turns = 60\nbatch_size = 32\noptimizer = {{lr = 0.05, momentum = "
        "0.9}}\nmodel = {{hidden = [24]}}\n"
        "data = {{name = \"tensors\", root = \"{}\", train = [\"train_x.npy\", "
        "\"train_y.npy\"], test = [\"test_x.npy\", \"test_y.npy\"]{}}}\n{}\n",
        root(), data, keys);
  }

 private:
  /// Two targets: a sum of the inputs, and the product of two of them.
  void write_split(const std::string& name, std::int64_t count) const {
    const at::Tensor x =
        at::sin(at::arange(count * kInputs).to(at::kFloat) * 1.7)
            .view({count, kInputs});
    const at::Tensor y =
        at::stack({x.sum(1), x.select(1, 0) * x.select(1, 1)}, 1);
    save(name + "_x.npy", x);
    save(name + "_y.npy", y.contiguous());
  }
  void save(const std::string& name, const at::Tensor& values) const {
    const auto* first = values.const_data_ptr<float>();
    write(name,
          npy_of("<f4", fmt::format("({}, {})", values.size(0), values.size(1)),
                 bytes_of_numbers(
                     std::vector<float>(first, first + values.numel()))));
  }
};

const std::string kSquared = "loss = {name = \"mean_squared_error\"}";

/// The mean squared error of a net of two linear layers on a whole split.
double error_on(const Split& split, const NamedTensors& weights) {
  const at::NoGradGuard no_grad;
  const Batch batch = all_of(split);
  const at::Tensor hidden = at::relu(
      at::linear(batch.inputs, weights.at(0).second, weights.at(1).second));
  const at::Tensor outputs =
      at::linear(hidden, weights.at(2).second, weights.at(3).second);
  return (outputs - batch.labels).square().mean().item<double>();
}

TEST_F(Regression, LearnsAndReportsTheMeanSquaredErrorOfTheTestSplit) {
  const auto sink = std::make_shared<Records>();
  Training training(small_experiment(config("blocks = 2\n" + kSquared)), sink);
  const Split& test = training.experiment.data->test;
  const double before = error_on(test, training.weights());
  training.train();
  const double after = error_on(test, training.weights());
  EXPECT_LT(after, before / 2);
  EXPECT_NEAR(sink->evaluation.number("loss", 0), after, 1e-5);
}

/// R² of the same net, averaged over both targets.
double r2_on(const Split& split, const NamedTensors& weights) {
  const at::NoGradGuard no_grad;
  const Batch batch = all_of(split);
  const at::Tensor hidden = at::relu(
      at::linear(batch.inputs, weights.at(0).second, weights.at(1).second));
  const at::Tensor outputs =
      at::linear(hidden, weights.at(2).second, weights.at(3).second);
  const at::Tensor& y = batch.labels;
  const at::Tensor missed = (outputs - y).square().sum(0);
  const at::Tensor spread = (y - y.mean(0)).square().sum(0);
  return (1 - missed / spread).mean().item<double>();
}

TEST_F(Regression, ReportsHowMuchOfTheVarianceOfEachSplitIsExplained) {
  const auto sink = std::make_shared<Records>();
  Training training(small_experiment(config("blocks = 2\n" + kSquared,
                                            ", validation = 10, "
                                            "evaluate_training = 20")),
                    sink);
  const DataSet& data = *training.experiment.data;
  const double before = r2_on(data.test, training.weights());
  training.train();
  const NamedTensors weights = training.weights();
  EXPECT_NEAR(sink->evaluation.number("r2", NAN), r2_on(data.test, weights),
              1e-4);
  EXPECT_NEAR(sink->evaluation.number("validation_r2", NAN),
              r2_on(data.validation, weights), 1e-4);
  EXPECT_NEAR(sink->evaluation.number("training_r2", NAN),
              r2_on(data.training_part, weights), 1e-4);
  EXPECT_GT(sink->evaluation.number("r2", NAN), before);
  EXPECT_EQ(sink->evaluation.find("bits_per_byte"), nullptr);
}

TEST_F(Regression, HasNoAccuracy) {
  const auto sink = std::make_shared<Records>();
  Training(small_experiment(config(kSquared, ", validation = 10")), sink)
      .train();
  EXPECT_EQ(sink->evaluation.find("accuracy"), nullptr);
  EXPECT_EQ(sink->evaluation.find("validation_accuracy"), nullptr);
  EXPECT_NE(sink->evaluation.find("validation_loss"), nullptr);
  EXPECT_EQ(sink->train.find("accuracy"), nullptr);
  EXPECT_NE(sink->train.find("loss"), nullptr);
  EXPECT_EQ(with_accuracy(std::nan("")), "");
  EXPECT_EQ(with_accuracy(0.932), ", accuracy 93.20 %");
}

NamedTensors trained(const std::string& config) {
  Training training(small_experiment(config));
  training.train();
  return training.weights();
}

TEST_F(Regression, HasTheSameBitsInAnyNumberOfBlocks) {
  EXPECT_EQ(difference(trained(config("blocks = 2\n" + kSquared)),
                       trained(config(kSquared))),
            "");
}

TEST_F(Regression, TrainsBlocksByLocalLossesAndSyntheticGradients) {
  for (const std::string boundary :
       {"{policy = \"local_loss\", head = {name = \"linear\"}}",
        "{policy = \"local_loss\", head = {name = \"predsim\", beta = 0}}",
        "{policy = \"synthetic_gradient\", synthesizer = {label = true}}"}) {
    const auto sink = std::make_shared<Records>();
    Training training(small_experiment(config("blocks = 2\nboundary = " +
                                              boundary + "\n" + kSquared)),
                      sink);
    const NamedTensors before = copies_of(training.weights());
    training.train();
    EXPECT_TRUE(std::isfinite(sink->evaluation.number("loss", NAN)))
        << boundary;
    EXPECT_FALSE(
        at::equal(before.at(0).second, training.weights().at(0).second))
        << boundary << ": the first block has not learned";
  }
}

TEST_F(Regression, HasTheSameBitsOnEveryEngineAndIsReported) {
  const std::string text = config(
      "threads = 1\nblocks = 2\nboundary = {policy = \"local_loss\", "
      "head = {name = \"linear\"}}\n" +
      kSquared);
  const std::string file = write("a.toml", Bytes(text.begin(), text.end()));
  const Outcome verified = sluice("verify " + file + " --turns 4");
  EXPECT_EQ(verified.status, 0) << verified.text;
  const Outcome run = sluice("run " + file + " --dir " + path("runs/a"));
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_THAT(run.text,
              AllOf(HasSubstr("test loss"), HasSubstr(", R² "),
                    Not(HasSubstr("accuracy")), Not(HasSubstr("nan %"))));
  const Outcome report = sluice("report " + path("runs"));
  EXPECT_EQ(report.status, 0) << report.text;
  EXPECT_THAT(report.text + slurp(path("runs/report.html")),
              HasSubstr("test R²"));
}

TEST_F(Regression, RefusesWhatIsOfClasses) {
  const auto refusal = [&](const std::string& keys,
                           const std::string& data = "") {
    return error_of([&] { small_experiment(config(keys, data)); });
  };
  EXPECT_THAT(refusal(""), HasSubstr("set loss.name = \"mean_squared_error\""));
  EXPECT_THAT(refusal(kSquared + "\nearly_stop = {patience = 2}"),
              HasSubstr("set metric = \"loss\""));
  EXPECT_THAT(refusal(kSquared + "\ncheckpoint = {best = \"accuracy\"}"),
              HasSubstr("set best = \"loss\""));
  EXPECT_THAT(refusal(kSquared, ", label_noise = 0.5"),
              HasSubstr("data.label_noise = 0.5"));
  EXPECT_THAT(refusal(kSquared, ", mixup = 0.5"),
              HasSubstr("data.mixup = 0.5"));
  EXPECT_EQ(refusal(kSquared + "\nearly_stop = {patience = 2, metric = "
                               "\"loss\"}"),
            "");
}

TEST_F(Regression, RefusesHeadsThatLookAtClasses) {
  for (const std::string boundary :
       {"{policy = \"target_projection\"}",
        "{policy = \"local_loss\", head = {name = \"predsim\"}}"})
    EXPECT_THAT(error_of([&] {
                  Training training(small_experiment(config(
                      "blocks = 2\nboundary = " + boundary + "\n" + kSquared)));
                  training.train();
                }),
                HasSubstr("the targets of this data set are numbers"))
        << boundary;
}

}  // namespace sluice::regression_test
