// A teacher's logits as the labels of training samples (distillation).
#include "experiments/data/change/teacher.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/data_sets.h"
#include "experiments/data/order/sample_source.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/data/data_test_files.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::teacher_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

DataSet digits(std::int64_t train = 40) {
  ConfigNode config = {.value = ConfigNode::Table{}};
  config.set("train", {.value = train});
  config.set("test", {.value = std::int64_t{20}});
  Fields fields(&config, "data");
  return find_row(data_sets(), "drawn_digits", "data set").make(fields)("");
}

/// A file of drawn logits with the split's labels.
class Teacher : public DataFolder {
 protected:
  Teacher() : path_(path("teacher.safetensors")) {
    logits_ = at::randn({40, 10}, Pass{}.generator("logits")) * 3;
    labels_ = all_of(digits().train).labels.clone();
    write_file(logits_, labels_);
  }
  void write_file(const at::Tensor& logits, const at::Tensor& labels) {
    write_safetensors(path_, {{"logits", logits}, {"labels", labels}});
  }
  Batch taught(double temperature, double weight, bool augmented = true) {
    return with_teacher(
               digits(),
               {.logits = path_, .temperature = temperature, .weight = weight})
        .train.samples()
        ->batch(std::vector<std::int64_t>{7, 3, 21},
                {.seed = 1, .augmented = augmented});
  }

  std::string path_;
  at::Tensor logits_;
  at::Tensor labels_;
};

TEST_F(Teacher, GivesSharesByTheSoftmaxOfItsLogits) {
  const Batch batch = taught(4, 0.75);
  const std::int64_t rows[] = {7, 3, 21};
  for (std::int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (std::int64_t c = 0; c < 10; ++c)
      sum += std::exp(logits_[rows[i]][c].item<double>() / 4);
    for (std::int64_t c = 0; c < 10; ++c) {
      const double soft =
          std::exp(logits_[rows[i]][c].item<double>() / 4) / sum;
      const bool own = labels_[rows[i]].item<std::int64_t>() == c;
      EXPECT_NEAR(batch.labels[i][c].item<double>(),
                  0.75 * soft + (own ? 0.25 : 0), 1e-6);
    }
  }
  EXPECT_FALSE(batch.labels.allclose(taught(1, 0.75).labels, 1e-2, 1e-2));
}

TEST_F(Teacher, LeavesInputsAndEvaluationsAlone) {
  const Batch plain = digits().train.samples()->batch(
      std::vector<std::int64_t>{7, 3, 21}, {.seed = 1});
  EXPECT_TRUE(taught(1, 1).inputs.equal(plain.inputs));
  EXPECT_TRUE(taught(1, 1, /*augmented=*/false).labels.equal(plain.labels));
}

TEST_F(Teacher, RefusesLogitsOfOtherSamples) {
  write_file(logits_.slice(0, 0, 30), labels_.slice(0, 0, 30));
  EXPECT_THAT([&] { taught(1, 1); },
              ThrowsMessage<UserError>(HasSubstr("--samples 40")));
  write_file(logits_, (labels_ + 1).remainder(10));
  EXPECT_THAT([&] { taught(1, 1); },
              ThrowsMessage<UserError>(HasSubstr("the labels differ")));
  write_safetensors(path_, {{"labels", labels_}});
  EXPECT_THAT([&] { taught(1, 1); },
              ThrowsMessage<UserError>(HasSubstr("no tensor 'logits'")));
}

using Distillation = DataFolder;

/// Against the soft term of the paper in plain autograd: T^2 times the cross
/// entropy of both softmaxes at T.
TEST_F(Distillation, HasTheWeightsOfPlainAutogradOver30Turns) {
  const std::string file = path("teacher.safetensors");
  const std::string lines =
      "blocks = 2\nmodel = {hidden = [24]}\noptimizer = {lr = 0.05}\n"
      "turns = 30\n";
  const Training start(small_experiment(lines));
  const Split& split = start.experiment.data->train;
  const Batch all = all_of(split);
  const at::Tensor logits =
      at::randn({split.size(), 10}, Pass{}.generator("logits")) * 3;
  write_safetensors(file, {{"logits", logits}, {"labels", all.labels.clone()}});

  const auto expected = [&](double temperature) {
    std::map<std::string, at::Tensor> w;
    for (const auto& [name, tensor] : start.weights())
      w[name] = tensor.detach().clone().requires_grad_();
    SampleSource source(split.samples(),
                        {.batch_size = start.experiment.batch_size,
                         .seed = start.experiment.seed});
    for (std::int64_t turn = 0; turn < 30; ++turn) {
      const Batch batch = source.batch(turn);
      const at::Tensor rows = at::tensor(source.positions(turn), at::kLong);
      const at::Tensor h = at::relu(at::linear(batch.inputs.flatten(1),
                                               w["layers.0.linear.weight"],
                                               w["layers.0.linear.bias"]));
      const at::Tensor s =
          at::linear(h, w["layers.1.linear.weight"], w["layers.1.linear.bias"]);
      const at::Tensor target =
          at::softmax(logits.index_select(0, rows) / temperature, 1);
      const at::Tensor loss =
          -(target * at::log_softmax(s / temperature, 1)).sum(1).mean() *
          temperature * temperature;
      std::vector<at::Tensor> leaves;
      for (const auto& [name, tensor] : w) leaves.push_back(tensor);
      const auto slopes = torch::autograd::grad({loss}, leaves);
      const at::NoGradGuard no_grad;
      std::size_t i = 0;
      for (auto& [name, tensor] : w) tensor.sub_(slopes[i++], 0.05);
    }
    return NamedTensors(w.begin(), w.end());
  };
  const auto found = [&](const std::string& temperature) {
    Training training(small_experiment(
        lines + "loss = {temperature = " + temperature + "}\n" +
        "[data]\ntrain = 320\ntest = 64\nteacher = '" + file +
        "'\nteacher_temperature = " + temperature + "\n"));
    training.train();
    const auto weights = training.weights();
    const std::map<std::string, at::Tensor> sorted(weights.begin(),
                                                   weights.end());
    return NamedTensors(sorted.begin(), sorted.end());
  };
  EXPECT_LT(distance(found("4.0"), expected(4)), 1e-5);
  EXPECT_LT(distance(found("1.0"), expected(1)), 1e-5);
  EXPECT_GT(distance(found("4.0"), expected(1)), 1e-3);
}

}  // namespace sluice::teacher_test
