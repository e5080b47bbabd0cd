// The run folder that a network of one's own writes.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/extends.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/report/study/run_record.h"
#include "experiments/runs/folder/run_reader.h"
#include "experiments/runs/uses/export.h"
#include "experiments/runs/watch/watch.h"
#include "lib/base/files/temporary_folder.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "lib/metrics/records.h"
#include "tests/experiments/api/small_network.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::network_run_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text_in(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class NetworkRun : public testing::TestWithParam<const char*> {
 protected:
  NetworkOptions options(const std::string& name,
                         const std::string& settings = "",
                         std::vector<Choice> boundaries = {
                             "fully_decoupled", "delayed_gradient"}) const {
    NetworkOptions options =
        small_network(std::move(boundaries),
                      fmt::format("engine = '{}'\n{}\n", engine(), settings));
    options.run.folder = path(name);
    return options;
  }
  std::string path(const std::string& name) const {
    return folder_.path() + "/" + name;
  }
  static const char* engine() { return GetParam(); }

  TemporaryFolder folder_;
};

Evaluation evaluation_of(Network& net) {
  const Batch batch = small_batch(1000);
  return net.evaluate(batch.inputs, batch.labels);
}

TEST_P(NetworkRun, HasTheFilesOfARun) {
  {
    Network net(options("mine", "name = 'mine'"));
    train(net, 12);
    net.record(evaluation_of(net));
    net.finish();
  }
  for (const char* file : {"config.toml", "run.json", "metrics.jsonl",
                           "status.json", "done", "checkpoints/turn-000012"})
    EXPECT_TRUE(fs::exists(path("mine/") + file)) << file;
  int boards = 0;
  for (const auto& entry : fs::directory_iterator(path("mine")))
    boards +=
        entry.path().filename().string().starts_with("events.out.") ? 1 : 0;
  EXPECT_EQ(boards, 1);
  EXPECT_THAT(text_in(path("mine/run.json")), HasSubstr("\"program\""));
  EXPECT_THAT(text_in(path("mine/status.json")),
              testing::AllOf(HasSubstr("\"done\""), HasSubstr("\"mine\"")));
}

TEST_P(NetworkRun, IsReadAsARunIs) {
  double accuracy = 0;
  double loss = 0;
  {
    Network net(options("mine"));
    train(net, 6);
    net.record(evaluation_of(net));
    train(net, 6);
    const Evaluation last = evaluation_of(net);
    net.record(last);
    accuracy = last.accuracy();
    loss = last.loss();
    net.finish();
  }
  const report::RunRecord run = report::read_run(path("mine"));
  EXPECT_TRUE(run.is_done());
  ASSERT_EQ(run.accuracy.size(), 2U);
  EXPECT_EQ(run.accuracy[0].turn, 6);
  EXPECT_EQ(run.accuracy[1].turn, 12);
  EXPECT_DOUBLE_EQ(run.accuracy[1].value, accuracy);
  EXPECT_DOUBLE_EQ(run.summary.value().loss.value(), loss);
  EXPECT_EQ(run.summary->method, "fully_decoupled, delayed_gradient");
  EXPECT_EQ(run.summary->blocks, 3);
  EXPECT_EQ(run.blocks.size(), 3U);  // what each has cost
  EXPECT_FALSE(run.training_loss.at(3).empty());
}

TEST_P(NetworkRun, ChangesNoBitOfTheTraining) {
  NetworkOptions plain = options("mine");
  plain.run = {};
  Network without(plain);
  train(without, 9);
  Network with(options("mine"));
  train(with, 9);
  EXPECT_EQ(difference(with.weights(), without.weights()), "");
  train(with, 1);
  EXPECT_GT(distance(with.weights(), without.weights()), 0);
}

TEST_P(NetworkRun, IsResumedWithBatchesInFlight) {
  NetworkOptions plain = options("mine");
  plain.run = {};
  Network through(plain);
  train(through, 12);
  {
    Network first(options("mine", "checkpoint.every_turns = 7"));
    train(first, 9);
  }
  EXPECT_THAT(text_in(path("mine/status.json")), HasSubstr("\"stopped\""));
  EXPECT_FALSE(fs::exists(path("mine/done")));
  NetworkOptions again = options("mine", "checkpoint.every_turns = 7");
  again.run.resume = true;
  Network second(again);
  EXPECT_EQ(second.turns(), 7);
  EXPECT_GT(distance(second.weights(), through.weights()), 0);
  train(second, 5);
  EXPECT_EQ(difference(second.weights(), through.weights()), "");
  second.finish();
  const report::RunRecord run = report::read_run(path("mine"));
  EXPECT_TRUE(run.is_done());
  EXPECT_TRUE(run.was_continued);
  // Turns after the checkpoint were done twice, and are reported once.
  std::map<std::int64_t, int> told;
  RunReader(path("mine")).read([&](const Record& record) {
    if (const auto train = record.as<records::Train>())
      if (train->block == 3) ++told[train->turn];
  });
  for (const auto& [turn, times] : told) EXPECT_EQ(times, 1) << turn;
  EXPECT_EQ(told.size(), 12U);
}

TEST_P(NetworkRun, KeepsTheCheckpointsThatItsConfigSays) {
  {
    Network net(options("mine",
                        "checkpoint = {every_turns = 4, keep = 2, "
                        "best = 'accuracy'}"));
    train(net, 3);
    net.record(evaluation_of(net));
    net.save();
    train(net, 14);
    net.finish();
  }
  std::vector<std::int64_t> turns;
  for (const auto& [turn, folder] : find_checkpoints(path("mine/checkpoints")))
    turns.push_back(turn);
  EXPECT_THAT(turns, ElementsAre(3, 12, 16, 17));
  EXPECT_EQ(fs::read_symlink(path("mine/checkpoints/best")).string(),
            "turn-000003");
}

TEST_P(NetworkRun, LeavesItsWeightsToBeAskedFor) {
  Network net(options("mine"));
  train(net, 5);
  const NamedTensors before = net.weights();
  const double loss = evaluation_of(net).loss();
  net.finish();
  net.finish();  // once is enough
  EXPECT_EQ(difference(net.weights(), before), "");
  EXPECT_EQ(evaluation_of(net).loss(), loss);
  EXPECT_EQ(
      difference(load_weights(path("mine/checkpoints/turn-000005")), before),
      "");
  const Batch batch = small_batch(5);
  EXPECT_THAT(complaint_of([&] { net.step(batch.inputs, batch.labels); }),
              HasSubstr("trains no more"));
}

TEST_P(NetworkRun, CanBeWatchedWithoutAnEnd) {
  {
    Network net(options("mine"));
    train(net, 3);
    net.finish();
  }
  testing::internal::CaptureStdout();
  watch(path("mine"), /*once=*/true);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              testing::AllOf(HasSubstr("turn 2,"), HasSubstr("done")));
}

TEST_P(NetworkRun, IsExportedFromItsCheckpoint) {
  NamedTensors layers;
  {
    Network net(options("mine", "", {"local_loss", "local_loss"}));
    train(net, 3);
    net.finish();
    for (auto& [name, tensor] : net.weights())
      if (name.starts_with("layers.")) layers.emplace_back(name, tensor);
    EXPECT_LT(layers.size(), net.weights().size());  // heads
  }
  const std::string file = path("model.safetensors");
  const std::size_t count =
      export_own_layers(read_config_file(path("mine/config.toml")),
                        find_checkpoint(path("mine"), ""), file);
  EXPECT_EQ(count, layers.size());
  EXPECT_EQ(difference(read_safetensors(file), layers), "");
}

INSTANTIATE_TEST_SUITE_P(Engines, NetworkRun,
                         testing::Values("virtual", "threads"));

/// What is the same on every engine.
class NetworkRunMisuse : public testing::Test {
 protected:
  std::string refusal(const std::string& settings, bool has_run) const {
    NetworkOptions options = small_network({"backprop"}, settings);
    if (has_run) options.run.folder = folder_.path() + "/mine";
    return complaint_of([&] { const Network net(options); });
  }

  TemporaryFolder folder_;
};

TEST_F(NetworkRunMisuse, AnotherRunIsThere) {
  EXPECT_EQ(refusal("", true), "");
  EXPECT_THAT(refusal("", true), HasSubstr("holds a run already"));
  NetworkOptions options = small_network({"backprop"});
  options.run = {.folder = folder_.path() + "/mine", .overwrite = true};
  EXPECT_EQ(complaint_of([&] { const Network net(options); }), "");
}

TEST_F(NetworkRunMisuse, KeysOfARunThatIsNotWritten) {
  for (const char* keys : {"name = 'x'", "hashes = true",
                           "checkpoint = {keep = 1}", "trace.turns = 3"}) {
    EXPECT_THAT(refusal(keys, false), HasSubstr("NetworkOptions::run")) << keys;
    fs::remove_all(folder_.path() + "/mine");
    EXPECT_EQ(refusal(keys, true), "") << keys;
  }
  EXPECT_THAT(refusal("epochs = 3", true), HasSubstr("your own loop"));
}

TEST_F(NetworkRunMisuse, ThereIsNothingToResume) {
  NetworkOptions options = small_network({"backprop"});
  options.run = {.folder = folder_.path() + "/none", .resume = true};
  EXPECT_THAT(complaint_of([&] { const Network net(options); }),
              HasSubstr("none: isn't there"));
  EXPECT_FALSE(fs::exists(folder_.path() + "/none"));
}

TEST_F(NetworkRunMisuse, CallsThatNeedARunOrGoAroundIt) {
  Network net(small_network({"backprop"}));
  EXPECT_THAT(complaint_of([&] { net.record(evaluation_of(net)); }),
              HasSubstr("writes no run"));
  EXPECT_THAT(complaint_of([&] { net.save(); }), HasSubstr("writes no run"));
  train(net, 2);
  const std::string saved = net.save(folder_.path() + "/elsewhere");
  NetworkOptions options = small_network({"backprop"});
  options.run.folder = folder_.path() + "/mine";
  Network writer(options);
  EXPECT_THAT(complaint_of([&] { writer.load(saved); }),
              HasSubstr("RunOfNetwork::resume"));
}

TEST_F(NetworkRunMisuse, ItsConfigIsNoneOfAnExperiment) {
  EXPECT_EQ(refusal("", true), "");
  EXPECT_THAT(complaint_of([&] {
                read_experiment(
                    read_config_file(folder_.path() + "/mine/config.toml"), "");
              }),
              HasSubstr("the program that run.json names"));
}

}  // namespace sluice::network_run_test
