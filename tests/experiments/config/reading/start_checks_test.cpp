// Keys that can have no effect, and layers that can't take a batch: told or
// refused before the first turn, on every engine with the same words.
#include "experiments/config/reading/start_checks.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::start_checks_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// The experiment has 10 turns an epoch and 20 turns, of images of 28 x 28.
struct Case {
  const char* check;  ///< row of start_checks()
  const char* lines;
  std::vector<const char*> says;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"a window of accumulate longer than the run",
       "accumulate = {batches = 32}",
       {"test.toml:1: accumulate.batches", "made of 32 turns", "has 20 turns",
        "nothing is trained"}},
      {"a window of accumulate longer than the run",
       "accumulate = {batches = 15}\n"
       "timetable = [{turn = 10, accumulate = 12}]",
       {"accumulate.batches", "made of 15 turns"}},
      {"a window of accumulate longer than the run",
       "schedule = 'free'\nblocks = 2\naccumulate = {by_block = [30, 1]}",
       {"block 1 makes an update of 30 turns"}},
      {"turns at the end whose gradients are dropped",
       "accumulate = {batches = 8}",
       {"4 of 20 turns at the end are in none", "16 turns or 24 turns"}},
      {"an early stop with too few evaluations",
       "early_stop = {patience = 3}\nevaluate_every = 0",
       {"early_stop.patience", "evaluate_every = 0"}},
      {"an early stop with too few evaluations",
       "early_stop = {patience = 3}",
       {"early_stop.patience: 3 evaluations", "1 before its end"}},
      {"a phase beyond the end",
       "timetable = [{turn = 30, accumulate = 2}]",
       {"timetable[0]", "turn 30", "ends after turn 20"}},
      {"milestones beyond the end",
       "optimizer = {schedule = {name = 'step', milestones = [1, 2, 90]}}",
       {"optimizer.schedule.milestones", "epoch 2, 90", "turn 20, epoch 2"}},
      {"milestones beyond the end",
       "optimizer = {schedule = {name = 'step'}}",
       {"schedule 'step' has none"}},
      {"a warm-up as long as the run",
       "optimizer = {lr = 1, schedule = {warmup_epochs = 5}}",
       {"warmup_epochs", "rises for 50 turns", "ends at 0.4"}},
      {"a warm-up as long as the run",
       "optimizer = {lr = 1, schedule = {warmup_turns = 40}}",
       {"warmup_turns", "ends at 0.5"}},
      {"no evaluation before the end",
       "evaluate_every = 10",
       {"evaluate_every", "100 turns"}},
      {"no checkpoint before the end",
       "checkpoint = {every = 3}",
       {"checkpoint.every:", "every 30 turns"}},
      {"no checkpoint before the end",
       "checkpoint = {every_turns = 21}",
       {"checkpoint.every_turns"}},
      {"a trace of turns beyond the end",
       "trace = {first = 20}",
       {"trace.first", "turn 20"}},
      {"an average that is still of the first weights",
       "optimizer = {average = 0.999}",
       {"optimizer.average", "98 % the first weights"}},
      {"a group of parameters that no name matches",
       "optimizer = {groups = [{match = ['*.bais'], weight_decay = 0}]}",
       {"optimizer.groups[0].match", "'*.bais' matches no parameter",
        "layers.0."}},
      {"a group of parameters that no name matches",
       "optimizer = {groups = [{match = '*.weight'}, {match = "
       "'layers.0.*weight'},"
       " {match = '*.bias'}]}",
       {"groups[1].match", "in earlier groups"}},
      {"a correction where nothing is stale",
       "optimizer = {correction = {name = 'dynsgd'}}",
       {"optimizer.correction.name", "'dynsgd'", "none is stale"}},
      {"replicas' keys where there is nothing to exchange",
       "replicas = {compress = 'top_k'}",
       {"replicas.compress", "'top_k' with replicas.count = 1"}},
      {"replicas' keys where there is nothing to exchange",
       "replicas = {policy = 'gossip'}",
       {"replicas.policy", "'gossip'"}},
      {"keys of clipping without a norm",
       "optimizer = {clip = {scope = 'model'}}",
       {"optimizer.clip", "norm = 0"}},
      {"keys of checkpoints or stops that others switch off",
       "checkpoint = {keep = 3}",
       {"checkpoint.keep", "checkpoint.every too"}},
      {"keys of checkpoints or stops that others switch off",
       "early_stop = {min_delta = 0.1}",
       {"early_stop.min_delta"}},
      {"keys of checkpoints or stops that others switch off",
       "accumulate = {rule = 'mean'}",
       {"accumulate.rule"}},
      {"keys of worker processes where there are none",
       "on_failure = 'restart'\nengine = 'threads'",
       {"on_failure", "engine = 'threads'"}},
      {"a service for GPUs that are not shared",
       "mps = true",
       {"mps", "engine = 'virtual'"}},
      {"a service for GPUs that are not shared",
       "mps = true\nengine = 'processes'",
       {"mps", "no block is on one"}},
      {"a limit above the size of the split",
       "limit = {train = 1000}",
       {"limit.train: 1000", "has 320"}},
      {"a batch of one sample where a layer normalises over it",
       "data = {train = 321, test = 64}\n"
       "model = {hidden = [8, 8], batch_norm = true}",
       {"batch_size", "321 samples", "1 sample", "drop_last = true"}},
      {"a batch of one sample where a layer normalises over it",
       "batch_size = 1\nmodel = {hidden = [8, 8], batch_norm = true}",
       {"batch_size: each batch has 1 sample", "set 2 or more"}},
      {"a batch of one sample where a layer normalises over it",
       "data = {train = 165, test = 64}\nbatch_size = 16\n"
       "pipeline = {micro_batches = 4}\n"
       "model = {hidden = [8, 8], batch_norm = true}",
       {"pipeline.micro_batches", "165 samples", "drop_last = true"}},
      {"a batch of one sample where a layer normalises over it",
       "data = {train = 321, test = 64}\nreplicas = {count = 2}\n"
       "model = {hidden = [8, 8], batch_norm = true}",
       {"321 samples"}},
      {"a batch of one sample where a layer normalises over it",
       "data = {train = 321, test = 64}\nmodel = {name = 'layers', layer = ["
       "{type = 'conv', channels = 2}, {type = 'global_pool'},"
       " {type = 'batch_norm'}, {type = 'linear', outputs = 10}]}",
       {"('"}},
      {"images that a change leaves nothing of",
       "data = {train = 320, test = 64, augment = {crop = 28}}",
       {"data.augment.crop: 28 pixels", "28 x 28"}},
      {"images that a change leaves nothing of",
       "data = {train = 320, test = 64, augment = {cutout = 56}}",
       {"data.augment.cutout", "56 x 56"}},
      {"targets that say nothing of the class",
       "loss = {label_smoothing = 1.0}",
       {"loss.label_smoothing"}},
  };
  return all;
}

std::string all_lines(const std::string& config) {
  const StartLines lines = lines_at_start(small_experiment(config));
  std::string text;
  for (const auto* each : {&lines.told, &lines.refused})
    for (const std::string& line : *each) text += line + "\n";
  return text;
}

TEST(StartChecks, EachCaseIsToldOrRefusedAsItsRowSays) {
  for (const Case& each : cases()) {
    const Experiment experiment = small_experiment(each.lines);
    const auto rows = start_checks();
    const auto row = std::find_if(
        rows.begin(), rows.end(),
        [&](const StartCheck& check) { return check.name == each.check; });
    ASSERT_NE(row, rows.end()) << each.check;
    EXPECT_FALSE(row->look(experiment).empty()) << each.lines;
    const std::string text = all_lines(each.lines);
    for (const char* part : each.says)
      EXPECT_THAT(text, HasSubstr(part)) << each.lines;
    if (row->answer == FaultEffect::refused)
      EXPECT_THROW(check_start(experiment), UserError) << each.lines;
    else
      EXPECT_THAT(check_start(experiment), Not(IsEmpty())) << each.lines;
    EXPECT_THAT(told_on_resume(experiment), Not(IsEmpty())) << each.lines;
  }
}

/// Rows that need another processor or a delayed policy without a delay are
/// tested elsewhere.
TEST(StartChecks, EveryRowHasACase) {
  std::set<std::string_view> tested = {
      "a view of old weights where there are none",
      "layers that compute in fp32 instead of bf16",
      "layers that can't compute in bf16 here"};
  for (const Case& each : cases()) tested.insert(each.check);
  for (const StartCheck& check : start_checks())
    EXPECT_TRUE(tested.contains(check.name)) << check.name;
}

TEST(StartChecks, ConfigsThatAreMeantSoSayNothing) {
  for (const char* lines :
       {"",
        "blocks = 2\nboundary = {policy = 'delayed_gradient'}\n"
        "optimizer = {correction = {name = 'dynsgd'}}",
        "accumulate = {batches = 4}",
        "early_stop = {patience = 1}\n"
        "evaluate_every = 0.5",
        "timetable = [{turn = 10, accumulate = 2}]",
        "optimizer = {schedule = {name = 'step', milestones = [1]}}",
        "optimizer = {schedule = {warmup_turns = 20}}",
        "checkpoint = {every = 1, keep = 2, best = 'loss'}",
        "optimizer = {groups = [{match = ['*.bias', 'layers.0.*']}]}",
        "replicas = {count = 2, compress = 'top_k'}",
        "optimizer = {clip = {norm = 1, scope = 'model'}}",
        "data = {train = 321, test = 64}\ndrop_last = true\n"
        "model = {hidden = [8, 8], batch_norm = true}",
        "data = {train = 320, test = 65}\n"
        "model = {hidden = [8, 8], batch_norm = true}",
        "data = {train = 321, test = 64}\nturns = 9\n"
        "model = {hidden = [8, 8], batch_norm = true}",
        "data = {train = 321, test = 64}\nmodel = {name = 'layers', layer = ["
        "{type = 'conv', channels = 2}, {type = 'batch_norm'},"
        " {type = 'flatten'}, {type = 'linear', outputs = 10}]}",
        "data = {train = 320, test = 64, augment = {crop = 4}}"})
    EXPECT_EQ(all_lines(lines), "") << lines;
}

TEST(StartChecks, HeadThatNormalisesIsRefusedToo) {
  EXPECT_THAT(
      all_lines("data = {train = 321, test = 64}\nblocks = 2\n"
                "model = {hidden = [8, 8]}\nboundary = {policy = "
                "'local_loss', head = {name = 'mlp_sr'}}"),
      AllOf(HasSubstr("the head above block 1"), HasSubstr("drop_last")));
}

/// BatchNorm and one sample over.
class OneSampleOver : public Program,
                      public testing::WithParamInterface<const char*> {};

TEST_P(OneSampleOver, IsRefusedBeforeTheStartWithTheSameWords) {
  const std::string config =
      write("config.toml",
            "batch_size = 24\nthreads = 1\n"
            "model = {hidden = [32], batch_norm = true}\n"
            "data = {train = 25, test = 40}\n");
  const Outcome run = sluice(fmt::format("run {} --dir {} engine={}", config,
                                         path("run"), GetParam()));
  EXPECT_EQ(run.status, 2) << run.text;
  EXPECT_EQ(run.text,
            fmt::format("sluice: {}:1: batch_size: of 25 samples in batches of "
                        "24 the last one of an epoch has 1 sample, and layer 0 "
                        "('flatten, linear 784->32, norm') normalises each "
                        "channel over the batch, which wants 2 values or more: "
                        "set drop_last = true, or another batch_size\n",
                        config));
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

INSTANTIATE_TEST_SUITE_P(Engines, OneSampleOver,
                         testing::Values("virtual", "threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class ChecksOfCommands : public Program {};

TEST_F(ChecksOfCommands, ConfigPlanAndRunSayTheSame) {
  const std::string config =
      write("config.toml", config_with("accumulate = {batches = 5}\n"));
  for (const char* command : {"config", "plan", "run"}) {
    const std::string more =
        command == std::string("run") ? " --dir " + path("run") : "";
    const Outcome outcome =
        sluice(fmt::format("{} {}{}", command, config, more));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text,
                HasSubstr("sluice: " + config +
                          ":4: accumulate.batches: an update is made of 5 "
                          "turns, and 2 of 12 turns"));
  }
  // A run that was begun goes on, and is evaluated, whatever a check says now.
  const std::string resumed =
      "run --resume " + path("run") + " turns=13 accumulate.batches=50";
  EXPECT_THAT(sluice(resumed).text, HasSubstr("made of 50 turns"));
  EXPECT_EQ(sluice("eval " + path("run")).status, 0);
}

}  // namespace sluice::start_checks_test
