// Blocks that replay graphs have the bits of those that don't, whatever the
// method, on the simulated GPU.
#include <cstdint>
#include <fstream>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/methods.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"
#include "tests/gpu/trained_on.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::graphs_test {

constexpr const char* kMlp =
    "model = {hidden = [24, 20, 16], batch_norm = true, dropout = 0.2}\n"
    "optimizer = {lr = 0.05, momentum = 0.9, weight_decay = 0.01}\n";

/// Weights after 12 turns, and what they took.
struct TrainedWith {
  NamedTensors weights;
  std::int64_t launches = 0;
};
TrainedWith trained(const std::string& lines) {
  const std::int64_t before = simcuda::counts().launches;
  NamedTensors weights = trained_on("cuda:0", lines);
  return {std::move(weights), simcuda::counts().launches - before};
}

/// Expects equal bits with fewer launches.
void expect_alike(const std::string& lines) {
  const TrainedWith plain = trained(lines);
  const TrainedWith graphs = trained("graphs = true\n" + lines);
  EXPECT_FALSE(plain.weights.empty());
  EXPECT_EQ(difference(plain.weights, graphs.weights), "") << lines;
  EXPECT_LT(graphs.launches, plain.launches) << lines;
}

class MethodInGraphs
    : public testing::TestWithParam<std::tuple<MethodUnderTest, int>> {};

TEST_P(MethodInGraphs, HasTheBitsOfNone) {
  const auto& [method, blocks] = GetParam();
  expect_alike(fmt::format("blocks = {}\n{}boundary = {}\n", blocks, kMlp,
                           method.boundary));
}

INSTANTIATE_TEST_SUITE_P(Methods, MethodInGraphs,
                         testing::Combine(testing::ValuesIn(methods()),
                                          testing::Values(1, 2, 3)),
                         [](const auto& info) {
                           return fmt::format("{}In{}Blocks",
                                              std::get<0>(info.param).name,
                                              std::get<1>(info.param));
                         });

struct OtherLines {
  const char* name;
  const char* lines;
};

class LinesInGraphs : public testing::TestWithParam<OtherLines> {};

TEST_P(LinesInGraphs, HaveTheBitsOfNone) {
  expect_alike(fmt::format("blocks = 2\n{}", GetParam().lines));
}

const OtherLines kLines[] = {
    {"Convolutions",
     "model = {name = 'conv3', channels = 8, dropout = 0.2}\n"
     "optimizer = {name = 'adam', lr = 0.001}\n"
     "boundary = {policy = 'delayed_gradient'}\n"},
    {"HeadsOfConvolutions",
     "model = {name = 'conv3', channels = 8, dropout = 0.2}\n"
     "boundary = {policy = 'local_loss', head = {name = 'conv'}}\n"},
    {"ShortLastBatches",
     "limit = {train = 230}\nboundary = {policy = 'backprop'}\n"},
    {"Clipping",
     "boundary = {policy = 'backprop'}\n"
     "optimizer = {name = 'adamw', clip = {norm = 0.5}}\n"},
    {"Adagrad",
     "boundary = {policy = 'backprop'}\n"
     "optimizer = {name = 'adagrad', lr = 0.01}\n"},
    {"ClippingOfTheModel",
     "boundary = {policy = 'backprop'}\n"
     "optimizer = {clip = {norm = 0.5, scope = 'model'}}\n"},
    {"MicroBatches",
     "boundary = {policy = 'backprop'}\n"
     "pipeline = {order = '1f1b', micro_batches = 4}\n"},
    {"Recomputing",
     "boundary = {policy = 'backprop'}\n"
     "pipeline = {order = 'gpipe', micro_batches = 2, recompute = true}\n"},
    {"Windows",
     "boundary = {policy = 'delayed_gradient'}\naccumulate = {batches = 3}\n"},
    {"Bf16", "precision = 'bf16'\nboundary = {policy = 'backprop'}\n"},
    {"LearningRates",
     "boundary = {policy = 'backprop'}\n"
     "optimizer = {lr = 0.05, schedule = {name = 'cosine'}}\n"},
    {"MeanSquaredErrors",
     "boundary = {policy = 'backprop'}\nloss = {name = "
     "'mean_squared_error'}\n"},
    {"Averages",
     "boundary = {policy = 'local_loss'}\noptimizer = {average = 0.9}\n"},
    {"Hashes",
     "boundary = {policy = 'delayed_gradient'}\nhashes = true\n"
     "gradient_norms = true\n"},
    {"Replicas", "boundary = {policy = 'backprop'}\nreplicas = {count = 2}\n"},
};

INSTANTIATE_TEST_SUITE_P(Of, LinesInGraphs, testing::ValuesIn(kLines),
                         [](const auto& info) { return info.param.name; });

struct RefusedLines {
  const char* name;
  const char* lines;
  const char* why;
};

class RefusedGraphs : public testing::TestWithParam<RefusedLines> {};

TEST_P(RefusedGraphs, SayWhyAndWhatToDo) {
  const auto& [name, lines, why] = GetParam();
  try {
    small_experiment(fmt::format("blocks = 2\ngraphs = true\n{}", lines));
    ADD_FAILURE() << name << " is not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("graphs"));
    EXPECT_THAT(error.what(), testing::HasSubstr(why));
  }
}

const RefusedLines kRefused[] = {
    {"OnCpus", "device = 'cpu'\n", "no block lies on a GPU"},
    {"ByThreadsOfOneGpu", "device = 'cuda:0'\nengine = 'threads'\n",
     "set engine = \"processes\""},
    {"WithSplitBackwards",
     "device = 'cuda:0'\npipeline = {order = 'zb-h1', micro_batches = 2}\n"
     "boundary = {policy = 'backprop'}\n",
     "choose another order"},
    {"WithMasksOfTheCpu", "device = 'cuda:0'\nmasks = 1\n", "set masks = 2"},
};

INSTANTIATE_TEST_SUITE_P(Of, RefusedGraphs, testing::ValuesIn(kRefused),
                         [](const auto& info) { return info.param.name; });

/// The program's runs, in a folder of their own.
class Runs {
 public:
  NamedTensors weights(const std::string& keys, const std::string& lines) {
    const std::string config = folder_.path() + "/config.toml";
    std::ofstream(config) << config_with(lines);
    do_run(fmt::format("{} {} --dir {}", config, keys, next()));
    return at_end();
  }
  NamedTensors weights_of_two_parts(const std::string& keys,
                                    const std::string& keys_of_second,
                                    const std::string& lines) {
    const std::string config = folder_.path() + "/config.toml";
    std::ofstream(config) << config_with(lines);
    do_run(fmt::format("{} {} turns=7 drain=false --dir {}", config, keys,
                       next()));
    do_run(fmt::format("--resume {} turns=12 drain=true {}", run_,
                       keys_of_second));
    return at_end();
  }

 private:
  std::string next() {
    run_ = fmt::format("{}/{}", folder_.path(), ++runs_);
    return run_;
  }
  static void do_run(const std::string& arguments) {
    const Outcome run =
        shell(fmt::format("{} run {}", SLUICE_SIM_PROGRAM, arguments));
    EXPECT_EQ(run.status, 0) << run.text;
  }
  NamedTensors at_end() const {
    return load_weights(checkpoint_folder(run_ + "/checkpoints", 12));
  }

  const TemporaryFolder folder_;
  std::string run_;
  int runs_ = 0;
};

/// A short last batch, and an evaluation after each epoch of 10 turns.
constexpr const char* kShort =
    "blocks = 2\nmodel = {hidden = [24, 20], batch_norm = true, dropout = "
    "0.2}\noptimizer = {lr = 0.05, momentum = 0.9}\nlimit = {train = 230}\n"
    "device = 'cuda'\n";

class RunsWithGraphs : public testing::TestWithParam<const char*> {};

TEST_P(RunsWithGraphs, HaveTheBitsOfNoneOnEachEngineAndResumed) {
  Runs runs;
  const std::string lines =
      fmt::format("{}boundary = {{policy = '{}'}}\n", kShort, GetParam());
  const NamedTensors plain = runs.weights("engine=virtual", lines);
  EXPECT_FALSE(plain.empty());
  for (const char* keys :
       {"engine=virtual", "engine=threads", "engine=processes",
        "engine=processes transport=shared_memory",
        "engine=processes probe.every=4", "engine=virtual blocks=1"})
    EXPECT_EQ(
        difference(std::string(keys).find("blocks=1") == std::string::npos
                       ? plain
                       : runs.weights(keys, lines),
                   runs.weights(fmt::format("{} graphs=true", keys), lines)),
        "")
        << keys;
  EXPECT_EQ(difference(plain, runs.weights_of_two_parts(
                                  "engine=processes graphs=true", "", lines)),
            "");
  EXPECT_EQ(difference(plain,
                       runs.weights_of_two_parts("engine=processes graphs=true",
                                                 "graphs=false", lines)),
            "");
}

INSTANTIATE_TEST_SUITE_P(Of, RunsWithGraphs,
                         testing::Values("backprop", "local_loss",
                                         "delayed_gradient"),
                         [](const auto& info) { return info.param; });

}  // namespace sluice::graphs_test
