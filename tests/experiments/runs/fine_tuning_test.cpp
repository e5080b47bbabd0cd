// Runs in which some of the model's weights train, or adapters alone.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "experiments/data/order/sample_source.h"
#include "lib/blocks/adapters.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::fine_tuning_test {

using testing::HasSubstr;

constexpr const char* kNet =
    "blocks = 3\nbatch_size = 16\n"
    "model = {hidden = [24, 20, 16, 12], batch_norm = true, dropout = 0.2}\n";

bool is_weight(std::string_view name) {
  return name.starts_with("layers.") &&
         (name.ends_with(".weight") || name.ends_with(".bias"));
}

bool is_adapter(std::string_view name) {
  return name.starts_with("layers.") && is_of_adapter(name);
}

bool is_logits(std::string_view name) {
  return name == "logits";
}

NamedTensors only(const NamedTensors& tensors,
                  bool (*is_wanted)(std::string_view)) {
  NamedTensors some;
  for (const auto& named : tensors)
    if (is_wanted(named.first)) some.push_back(named);
  return some;
}

/// A run in this thread, and its weights before and after.
struct FinishedRun {
  explicit FinishedRun(const std::string& config)
      : training(small_experiment(config)),
        before(copies_of(training.weights())) {
    training.train();
    after = training.weights();
  }

  Training training;
  NamedTensors before;
  NamedTensors after;
};

const std::vector<std::string>& ways() {
  static const std::vector<std::string> all = {
      "boundary = {policy = 'backprop'}\noptimizer = {name = 'adam'}\n",
      "boundary = {policy = 'backprop'}\n"
      "pipeline = {order = 'zb-h1', micro_batches = 4}\n",
      "boundary = {policy = 'backprop'}\n"
      "pipeline = {order = '1f1b', micro_batches = 4, flush = false, "
      "weights = 'double_buffer'}\n",
      "boundary = {policy = 'delayed_gradient', weights = 'stash'}\n",
      "boundary = {policy = 'delayed_gradient', weights = 'predict'}\n"
      "optimizer = {lr = 0.05, momentum = 0.9}\n",
      "boundary = {policy = 'features_replay', statistics = 'forward'}\n",
      "boundary = {policy = 'local_loss'}\nprecision = 'bf16'\n",
      "boundary = {policy = 'local_loss', head = {name = 'man'}}\n",
      "boundary = {policy = 'local_loss', head = {name = 'aug_local'}}\n",
      "boundary = {policy = 'backprop'}\ncheckpoint_layers = 1\n",
      "boundary = {policy = 'backprop'}\noptimizer.average = 0.9\n",
      "boundary = {policy = 'backprop'}\n"
      "replicas = {count = 3, policy = 'average', every = 2}\n",
      "boundary = {policy = 'backprop'}\n"
      "replicas = {count = 2, policy = 'all_reduce'}\n",
  };
  return all;
}

TEST(FineTuning, TrainsAdaptersAndNoWeightOfTheModel) {
  for (const std::string& way : ways()) {
    SCOPED_TRACE(way);
    const FinishedRun run(way + kNet + "turns = 8\nfine_tune.lora.rank = 2\n");
    EXPECT_EQ(
        difference(only(run.after, is_weight), only(run.before, is_weight)),
        "");
    const NamedTensors adapters = only(run.after, is_adapter);
    ASSERT_EQ(adapters.size(), 10U);
    for (const auto& [name, tensor] : adapters)
      EXPECT_GT(tensor.abs().max().item<double>(), 0) << name;
  }
}

TEST(FineTuning, TrainsTheWeightsThatItNames) {
  const auto is_named = [](std::string_view name) {
    return is_weight(name) && name.starts_with("layers.2.") &&
           name.ends_with("weight");
  };
  for (const std::string& way : ways()) {
    SCOPED_TRACE(way);
    const FinishedRun run(way + kNet +
                          "turns = 8\nfine_tune = {train = ['layers.2.*'], "
                          "freeze = ['*.bias']}\n");
    std::map<std::string, at::Tensor> before(run.before.begin(),
                                             run.before.end());
    int moved = 0;
    for (const auto& [name, tensor] : run.after) {
      if (!is_weight(name)) continue;
      EXPECT_EQ(tensor.equal(before.at(name)), !is_named(name)) << name;
      if (is_named(name)) ++moved;
    }
    EXPECT_EQ(moved, 2) << "a linear layer's and a norm's";
  }
}

TEST(FineTuning, FineTuningOfAllWeightsHasTheBitsOfTraining) {
  for (const std::string& way : ways()) {
    SCOPED_TRACE(way);
    const std::string config = way + kNet + "turns = 8\n";
    const FinishedRun all(config);
    EXPECT_EQ(
        difference(FinishedRun(config + "fine_tune.train = ['*']\n").after,
                   all.after),
        "");
  }
}

TEST(FineTuning, WithoutARateChangesNothing) {
  const std::string config =
      std::string(kNet) + "turns = 8\nfine_tune.lora.rank = 2\n";
  const FinishedRun still(config + "optimizer.lr = 0\n");
  const auto adds_nothing = [](std::string_view name) {
    return name.ends_with(".lora_b");
  };
  for (const auto& [name, tensor] : only(still.after, adds_nothing))
    EXPECT_EQ(tensor.abs().max().item<double>(), 0) << name;
  EXPECT_EQ(
      difference(only(still.after, is_adapter), only(still.before, is_adapter)),
      "");
}

// h = relu(W x + b + s B A x) by layers, SGD with momentum of A and B alone.
TEST(FineTuning, HasTheUpdatesOfPlainAutograd) {
  constexpr double kRate = 0.1;
  constexpr double kMomentum = 0.9;
  Training training(small_experiment(
      "blocks = 2\nturns = 30\nbatch_size = 16\nmodel = {hidden = [24, 20]}\n"
      "optimizer = {lr = 0.1, momentum = 0.9}\n"
      "fine_tune = {lora = {rank = 3, alpha = 6}}\n"));
  std::map<std::string, at::Tensor> p;
  std::map<std::string, at::Tensor> velocity;
  for (const auto& [name, tensor] : copies_of(training.weights()))
    p[name] = tensor.requires_grad_(is_of_adapter(name));
  SampleSource source(training.experiment.data->train.samples(),
                      {.batch_size = training.experiment.batch_size,
                       .seed = training.experiment.seed});
  for (std::int64_t t = 0; t < 30; ++t) {
    const Batch batch = source.batch(t);
    at::Tensor x = batch.inputs.flatten(1);
    for (int i = 0; i < 3; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".linear.";
      x = x.mm(p[layer + "weight"].t()) + p[layer + "bias"] +
          2 * x.mm(p[layer + "lora_a"].t()).mm(p[layer + "lora_b"].t());
      if (i < 2) x = at::relu(x);
    }
    torch::nn::functional::cross_entropy(x, batch.labels).backward();
    const torch::NoGradGuard no_grad;
    for (auto& [name, tensor] : p) {
      if (!tensor.requires_grad()) continue;
      at::Tensor& v = velocity[name];
      v = v.defined() ? kMomentum * v + tensor.grad() : tensor.grad().clone();
      tensor.sub_(kRate * v);
      tensor.mutable_grad().reset();
    }
  }
  const NamedTensors before = copies_of(training.weights());
  training.train();
  NamedTensors plain;
  for (const auto& [name, tensor] : p)
    plain.emplace_back(name, tensor.detach());
  EXPECT_LT(distance(training.weights(), plain), 1e-5);
  EXPECT_GT(distance(before, plain), 1e-2);
}

// A block may have no weight that trains, and a tied embedding goes up beside
// the features.
TEST(FineTuning, TrainsTheAdaptersOfATransformerAlone) {
  for (const char* tied : {"true", "false"})
    for (const char* way :
         {"", "pipeline = {order = 'zb-h1', micro_batches = 4}\n",
          "checkpoint_layers = 1\n"}) {
      SCOPED_TRACE(std::string(tied) + way);
      const FinishedRun run(
          std::string(way) +
          "blocks = ['0', '1', '2-']\nbatch_size = 4\nturns = 4\n"
          "data = {name = 'noise', context = 6, vocabulary = 11, train = 64, "
          "test = 8}\n"
          "model = {name = 'gpt', layers = 2, width = 16, heads = 2, tied = " +
          tied +
          "}\nboundary = {policy = 'backprop'}\nfine_tune.lora.rank = 2\n");
      EXPECT_EQ(
          difference(only(run.after, is_weight), only(run.before, is_weight)),
          "");
      std::map<std::string, at::Tensor> before(run.before.begin(),
                                               run.before.end());
      for (const auto& [name, tensor] : only(run.after, is_adapter))
        EXPECT_FALSE(tensor.equal(before.at(name))) << name;
    }
}

class FineTunedRun : public Program {
 protected:
  FineTunedRun() {
    write("base.toml",
          "engine = 'threads'\nthreads = 1\nblocks = 2\nturns = 60\n"
          "batch_size = 16\ndata = {train = 320, test = 80}\n"
          "model = {hidden = [24, 16], batch_norm = true}\n"
          "optimizer.lr = 0.1\n");
    write("tuned.toml",
          "extends = ['base.toml']\nengine = 'processes'\nturns = 20\n"
          "initial_weights = '" +
              path("base") +
              "/checkpoints/turn-000060'\nfine_tune = {train = "
              "['layers.2.*.bias'], lora "
              "= {rank = 2, layers = ['layers.[01].*']}}\n"
              "checkpoint.every_turns = 10\n");
    run("run " + path("base.toml") + " --dir " + path("base"));
  }

  Outcome run(const std::string& command) {
    Outcome outcome = sluice(command);
    EXPECT_EQ(outcome.status, 0) << command << "\n" << outcome.text;
    return outcome;
  }
  std::string tune(const std::string& folder, const std::string& more = "") {
    run("run " + path("tuned.toml") + " --dir " + path(folder) + " " + more);
    return path(folder);
  }
  NamedTensors exported(const std::string& folder) {
    const std::string file = folder + ".safetensors";
    run("export " + folder + " --out " + file);
    return read_safetensors(file);
  }
};

TEST_F(FineTunedRun, ContinuesToTheBitsOfAWholeOne) {
  const std::string whole = tune("whole");
  tune("parts", "turns=10");
  run("run --resume " + path("parts") + " turns=20");
  EXPECT_EQ(difference(exported(whole), exported(path("parts"))), "");
  const Outcome other =
      sluice("run --resume " + whole + " turns=24 fine_tune.lora.rank=3");
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.text, HasSubstr("other adapters"));
}

TEST_F(FineTunedRun, IsExportedWithItsAdaptersInTheWeights) {
  const std::string tuned = tune("tuned");
  EXPECT_GT(distance(exported(tuned), exported(path("base"))), 1e-3);
  const std::string base = " --config " + path("base.toml");
  // A network without adapters computes the same with the file.
  const auto logits = [&](const std::string& of) {
    run("eval " + of + " --logits " + path("logits.safetensors"));
    return only(read_safetensors(path("logits.safetensors")), is_logits);
  };
  const NamedTensors of_run = logits(tuned);
  EXPECT_LT(distance(of_run, logits(tuned + ".safetensors" + base)), 1e-4);
  EXPECT_GT(distance(of_run, logits(path("base") + ".safetensors" + base)),
            1e-2);
  const Outcome refused =
      sluice("eval " + tuned + "/checkpoints/turn-000020" + base);
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.text, HasSubstr("has an adapter"));
}

TEST_F(FineTunedRun, IsTheSameInReplicasInProcessesAndInOneThread) {
  const std::string two = " replicas.count=2 replicas.policy=all_reduce";
  EXPECT_EQ(difference(exported(tune("here", "engine=virtual" + two)),
                       exported(tune("there", two))),
            "");
}

}  // namespace sluice::fine_tuning_test
