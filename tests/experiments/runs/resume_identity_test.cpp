// What a run that goes on, or is looked at again, must have in common with what
// it was: its data and its split; and what is recorded of who computed it.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runs/folder/data_identity.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::resume_identity_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A run of 12 turns, 10 to an epoch, on tensors in files.
class RunOnFiles : public Program {
 protected:
  RunOnFiles() {
    write_data("train.safetensors", 240, /*is_reversed=*/false);
    write_data("test.safetensors", 40, /*is_reversed=*/false);
    write("config.toml",
          "turns = 12\nbatch_size = 24\nthreads = 1\nblocks = 2\n"
          "engine = 'virtual'\nmodel = {hidden = [8]}\n"
          "data = {name = 'tensors', train = 'train.safetensors', test = "
          "'test.safetensors', root = '" +
              folder_ + "'}\n");
  }

  void write_data(const std::string& name, std::int64_t rows,
                  bool is_reversed) const {
    at::Tensor inputs = at::arange(rows * 4, at::kFloat).view({rows, 4}) / 1000;
    at::Tensor targets = at::arange(rows) % 3;
    if (is_reversed) {
      inputs = inputs.flip(0).contiguous();
      targets = targets.flip(0).contiguous();
    }
    write_safetensors(path(name), {{"inputs", inputs}, {"targets", targets}});
  }

  void train(const std::string& more = "turns=6") const {
    const Outcome outcome = sluice("run " + path("config.toml") + " --dir " +
                                   path("run") + " " + more);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
  Outcome resume(const std::string& more) const {
    return sluice("run --resume " + path("run") + " " + more);
  }
  Json run_json() const { return Json::parse(slurp(path("run/run.json"))); }
  void change_run_json(const std::function<void(Json&)>& change) const {
    Json run = run_json();
    change(run);
    std::ofstream(path("run/run.json")) << run.dump(2);
  }
};

TEST_F(RunOnFiles, GoesOnWithNothingThatItsNumbersWereCountedBy) {
  train();
  const std::string before = slurp(path("run/run.json"));
  for (const std::string other :
       {"batch_size=16", "drop_last=true", "seed=2", "limit.train=120",
        "data.scale=2", "model.hidden=[9]", "data={name=\"drawn_digits\"}"}) {
    const Outcome refused = resume("turns=12 '" + other + "'");
    EXPECT_EQ(refused.status, 2) << refused.text;
    EXPECT_THAT(refused.text,
                AllOf(HasSubstr("trained with"), HasSubstr("initial_weights")))
        << other;
    EXPECT_EQ(std::count(refused.text.begin(), refused.text.end(), '\n'), 1)
        << refused.text;
  }
  EXPECT_EQ(slurp(path("run/run.json")), before);
  EXPECT_TRUE(fs::exists(path("run/done")));
}

TEST_F(RunOnFiles, GoesOnWithAnotherFileOfTheSameContentAlone) {
  train();
  write_data("train.safetensors", 240, /*is_reversed=*/true);
  const Outcome reversed = resume("turns=12");
  EXPECT_EQ(reversed.status, 2);
  EXPECT_THAT(reversed.text,
              AllOf(HasSubstr("not those that it was trained with"),
                    HasSubstr("train.safetensors has"), HasSubstr("CRC-32C")));
  write_data("elsewhere.safetensors", 240, /*is_reversed=*/false);
  const Outcome moved = resume("turns=12 data.train=elsewhere.safetensors");
  EXPECT_EQ(moved.status, 0) << moved.text;
}

TEST_F(RunOnFiles, RunOnFilesOfAnOlderProgramGoesOnAndSaysWhatCantBeCompared) {
  train();
  change_run_json([](Json& run) { run.erase("data"); });
  write_data("train.safetensors", 240, /*is_reversed=*/true);
  const Outcome old = resume("turns=9");
  EXPECT_EQ(old.status, 0) << old.text;
  EXPECT_THAT(old.text, HasSubstr("can't be compared"));
  // From then on they are known.
  write_data("train.safetensors", 240, /*is_reversed=*/false);
  EXPECT_EQ(resume("turns=12").status, 2);
}

TEST_F(RunOnFiles, IsNotCountedInOtherBatchesByAnEditedConfig) {
  train();
  std::string config = slurp(path("run/config.toml"));
  const std::string line = "batch_size = 24";
  ASSERT_NE(config.find(line), config.npos);
  config.replace(config.find(line), line.size(), "batch_size = 16");
  std::ofstream(path("run/config.toml")) << config;
  const Outcome refused = resume("turns=12");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("batch_size: 16, before 24"));
}

TEST_F(RunOnFiles, TellsALineForEachKeyThatAnOverrideChanges) {
  train();
  const Outcome resumed = resume("turns=12 optimizer.lr=0.02 log_every=2");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_THAT(
      resumed.text,
      AllOf(HasSubstr("optimizer.lr = 0.02, before 0.1 (anew, other numbers "
                      "from turn 6 on)"),
            HasSubstr("log_every = 2, before 1 (free, no number changes)"),
            HasSubstr("turns = 12, before 6 (anew")));
}

TEST_F(RunOnFiles, KeepsForEachStretchWhoComputedIt) {
  train();
  change_run_json([](Json& run) {
    run["libtorch"] = "2.11.0";
    run["instruction_set"] = "NONE";
  });
  const Outcome resumed = resume("turns=12");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_THAT(resumed.text,
              AllOf(HasSubstr("Computed by others from turn 6 on"),
                    HasSubstr("libtorch 2.11.0 and"),
                    HasSubstr("instruction_set"), HasSubstr("NONE")));
  const Json run = run_json();
  EXPECT_EQ(run["libtorch"], "2.11.0");
  const Json& part = run["continued"][0];
  for (const char* key : {"build", "libtorch", "processor", "instruction_set",
                          "threads", "engine", "device", "data", "turn"})
    EXPECT_TRUE(part.contains(key)) << key;
  EXPECT_NE(part["libtorch"], "2.11.0");
}

TEST_F(RunOnFiles, IsNotEvaluatedOnChangedDataUnlessTheUserSaysSo) {
  train("turns=12");
  write_data("test.safetensors", 40, /*is_reversed=*/true);
  const std::string eval = "eval " + path("run");
  const Outcome refused = sluice(eval);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text,
              AllOf(HasSubstr("test.safetensors has"), HasSubstr("--config")));
  const std::string told = "evaluated on other data";
  const Outcome meant = sluice(eval + " --config " + path("run/config.toml"));
  EXPECT_EQ(meant.status, 0) << meant.text;
  EXPECT_THAT(meant.text, HasSubstr(told));
  const Outcome named = sluice(eval + " data.test=test.safetensors");
  EXPECT_EQ(named.status, 0) << named.text;
  EXPECT_THAT(named.text, HasSubstr(told));
}

/// With the validation split of the drawn digits.
class RunWithValidation : public Program {
 protected:
  void train(const std::string& more) const {
    const std::string config =
        write("config.toml", config_with("blocks = 2\nevaluate_every = 0\n"
                                         "engine = 'virtual'\n"
                                         "model = {hidden = [8]}\n"));
    const Outcome outcome =
        sluice("run " + config + " --dir " + path("run") + " " + more);
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
};

TEST_F(RunWithValidation, DrawsNoOtherSplitFromSamplesThatWereTrainedOn) {
  train("turns=6");
  for (const std::string other :
       {"data.validation=0.25", "data.validation=60", "data.seed=7",
        "data.train=200", "data.label_noise=0.5"}) {
    const Outcome refused =
        sluice("run --resume " + path("run") + " turns=12 " + other);
    EXPECT_EQ(refused.status, 2) << refused.text;
    EXPECT_THAT(refused.text, HasSubstr("trained with")) << other;
  }
  const Outcome eval =
      sluice("eval " + path("run") + " --validation data.validation=0.25");
  EXPECT_EQ(eval.status, 2);
  EXPECT_THAT(eval.text, HasSubstr("validation split would be of other data"));
}

TEST_F(RunWithValidation, KeepsTheSeedOfItsSplit) {
  train("turns=6 data.validation=0.25 data.validation_seed=3");
  const Outcome refused =
      sluice("run --resume " + path("run") + " turns=9 data.validation_seed=4");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("samples that were trained on"));
  const auto run = Json::parse(slurp(path("run/run.json")));
  EXPECT_EQ(run["data"]["split"]["validation"], 60);
  EXPECT_EQ(run["data"]["split"]["validation_seed"], 3);
  EXPECT_EQ(sluice("eval " + path("run") + " --validation").status, 0);
}

TEST_F(RunWithValidation, MayBeEvaluatedOnFewerSamplesFromThenOn) {
  train("turns=6");
  const Outcome fewer =
      sluice("run --resume " + path("run") + " turns=9 limit.evaluation=20");
  EXPECT_EQ(fewer.status, 0) << fewer.text;
  EXPECT_THAT(fewer.text, HasSubstr("limit.evaluation = 20"));
}

TEST(DataIdentity, DiffersByContentAndSplitAndNotByTheNamesOfFiles) {
  const Json one = {{"files", {{"a", "x"}}},
                    {"split", {{"train", 10}, {"order_seed", 1}}}};
  Json other = {{"files", {{"b", "x"}}}, {"split", {{"train", 10}}}};
  EXPECT_EQ(data_difference(one, other), "");
  other["split"]["order_seed"] = 2;
  EXPECT_THAT(data_difference(one, other), HasSubstr("order"));
  EXPECT_EQ(data_difference(without_order(one), other), "");
  other["files"]["b"] = "y";
  EXPECT_EQ(data_difference(one, other), "b has y, and had x");
  EXPECT_EQ(data_difference(Json(), other), "") << "nothing to compare with";
}

/// Bits of block 1 at turn 12, and what was counted of staleness.
std::string end_of(const std::string& run) {
  std::string text =
      slurp(run + "/checkpoints/turn-000012/block-1.safetensors");
  std::ifstream metrics(run + "/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);)
    if (line.find("\"kind\":\"staleness\"") != line.npos)
      text += line.substr(0, line.find("\"time\""));
  return text;
}

TEST_F(RunWithValidation, RunningFreeInTimeThatPassesGoesOnInTheSameOrder) {
  train(
      "schedule=free in_flight=4 boundary.policy=delayed_gradient "
      "checkpoint.every_turns=6 'virtual.forward=[0.01]' "
      "'virtual.slow=[\"2x3\"]'");
  fs::copy(path("run"), path("cut"), fs::copy_options::recursive);
  fs::remove(path("cut/done"));
  fs::remove_all(path("cut/checkpoints/turn-000012"));
  const Outcome resumed = sluice("run --resume " + path("cut"));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(end_of(path("run")), end_of(path("cut")));
}

/// Free, so that it can be replayed.
TEST_F(RunWithValidation, ReplayedByOthersSaysSo) {
  train("schedule=free boundary.policy=delayed_gradient");
  const std::string file = path("run/run.json");
  Json run = Json::parse(slurp(file));
  EXPECT_THAT(sluice("replay " + path("run")).text,
              Not(HasSubstr("computed by others")));
  run["instruction_set"] = "NONE";
  std::ofstream(file) << run.dump();
  EXPECT_THAT(sluice("replay " + path("run")).text,
              AllOf(HasSubstr("computed by others"), HasSubstr("NONE")));
  run["data"]["split"]["train"] = 241;
  std::ofstream(file) << run.dump();
  const Outcome refused = sluice("replay " + path("run"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text, HasSubstr("samples to train on: 240, before 241"));
}

}  // namespace sluice::resume_identity_test
