// Issue 18, item 5: what is chosen by an evaluation is chosen on a validation
// split where there is one, and results say which split has chosen.
#include "experiments/data/samples/validation.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/data_sets.h"
#include "experiments/data/order/sample_source.h"
#include "experiments/data/samples/chained.h"
#include "experiments/report/sections/report.h"
#include "experiments/runs/checkpoints/run_state.h"
#include "lib/base/error.h"
#include "lib/metrics/record.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/report/report_files.h"

namespace sluice::validation_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

DataSet digits(const ValidationOptions& options, bool augmented = false) {
  ConfigNode config = {.value = ConfigNode::Table{}};
  config.set("train", {.value = std::int64_t{200}});
  config.set("test", {.value = std::int64_t{20}});
  if (augmented) config.set_path("augment.crop", {.value = std::int64_t{3}});
  Fields fields(&config, "data");
  return with_validation(
      find_row(data_sets(), "drawn_digits", "data set").make(fields)(""),
      options);
}

/// What names the samples of a split outside of Sluice.
std::vector<std::int64_t> positions_in(const Split& split) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < split.size(); ++i)
    positions.push_back(split.samples()->position(i, {}));
  return positions;
}

at::Tensor inputs_of(const Split& split, std::int64_t index, EpochKey key) {
  return split.samples()->batch({&index, 1}, key).inputs;
}

TEST(AValidationSplit, IsAPartOfTheTrainingSamplesAndTheRestIsTrainedOn) {
  const DataSet data = digits({.amount = 0.1});
  std::vector<std::int64_t> all = positions_in(data.validation);
  EXPECT_EQ(all.size(), 20U);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_NE(all.back(), 19) << "the first samples, not some of them";
  const std::vector<std::int64_t> rest = positions_in(data.train);
  all.insert(all.end(), rest.begin(), rest.end());
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected(200);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  EXPECT_EQ(data.test.size(), 20);
}

TEST(AValidationSplit, IsTheSameEachTimeAndAnotherForAnotherSeedOfIts) {
  const auto drawn = positions_in(digits({.amount = 30}).validation);
  EXPECT_EQ(drawn.size(), 30U);
  EXPECT_EQ(drawn, positions_in(digits({.amount = 30}).validation));
  EXPECT_NE(drawn, positions_in(digits({.amount = 30, .seed = 1}).validation));
}

TEST(AValidationSplit, IsNotThereUnlessAskedFor) {
  const DataSet data = digits({});
  EXPECT_FALSE(data.has_validation());
  EXPECT_EQ(data.train.size(), 200);
}

TEST(AValidationSplit, KeepsEachSampleAndItsRandomChanges) {
  const DataSet whole = digits({}, true);
  const DataSet data = digits({.amount = 0.5}, true);
  const EpochKey key = {.seed = 3, .epoch = 2};
  const std::int64_t place = positions_in(data.train)[7];
  EXPECT_NE(place, 7);
  EXPECT_TRUE(at::equal(inputs_of(data.train, 7, key),
                        inputs_of(whole.train, place, key)));
  EXPECT_FALSE(
      at::equal(inputs_of(data.train, 7, key), inputs_of(whole.train, 7, key)));
}

TEST(AValidationSplit, ThatLeavesNothingToOneSplitIsAnError) {
  EXPECT_THROW(digits({.amount = 200}), UserError);
  EXPECT_THROW(digits({.amount = 1e-9}), UserError);
  EXPECT_EQ(digits({.amount = 199}).train.size(), 1);
}

TEST(ChainedSources, GiveTheFirstAndThenTheSecond) {
  const DataSet data = digits({.amount = 50});
  const auto source_of = [](const Split& split) {
    return std::make_unique<SampleSource>(
        split.samples(), OrderOptions{.batch_size = 20, .shuffled = false});
  };
  const auto source = chained(source_of(data.validation), source_of(data.test));
  EXPECT_EQ(source->batches_per_epoch(), 4);
  const Batch rest = source->batch(2);
  EXPECT_EQ(rest.inputs.size(0), 10) << "of 50";
  const Batch test = source->batch(3);
  EXPECT_EQ(test.index, 3);
  EXPECT_TRUE(at::equal(test.inputs, source_of(data.test)->batch(0).inputs));
}

/// The text to train and validate on is all 'a', the one to test on all 'b':
/// the more is learned the worse is the test, so it tells which split chose.
class Contrary : public Program {
 protected:
  Contrary() {
    write("text", std::string(3600, 'a') + std::string(400, 'b'));
    write("contrary.toml",
          "name = 'contrary'\nengine = 'virtual'\nthreads = 1\nblocks = 2\n"
          "turns = 30\nbatch_size = 16\nevaluate_every = 0.2\n"
          "data = {name = 'text', file = '" +
              path("text") +
              "', context = 8, validation = 0.1, test = 0.1}\n"
              "model = {name = 'gpt', layers = 2, width = 16, heads = 2}\n"
              "boundary = {policy = 'backprop'}\n"
              "optimizer = {name = 'adam', lr = 0.003}\n"
              "early_stop = {patience = 2, metric = 'loss'}\n"
              "checkpoint = {best = 'loss'}\n");
  }
  Outcome run(const std::string& dir, const std::string& more) const {
    return sluice("run " + path("contrary.toml") + " --dir " + path(dir) + " " +
                  more);
  }
  std::vector<Record> records(const std::string& dir,
                              const std::string& kind) const {
    std::vector<Record> found;
    std::ifstream file(path(dir) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (Record record = record_from_json(line); record.text("kind") == kind)
        found.push_back(std::move(record));
    return found;
  }
  /// Evaluations of the run, without their times.
  std::vector<std::string> evaluations(const std::string& dir) const {
    std::vector<std::string> lines;
    for (Record record : records(dir, "evaluation")) {
      record.set("time", 0.0);
      lines.push_back(to_json(record));
    }
    return lines;
  }
  std::string best(const std::string& dir) const {
    return fs::read_symlink(path(dir) + "/checkpoints/best").string();
  }
};

TEST_F(Contrary, TheValidationSplitStopsARunAndChoosesItsBestCheckpoint) {
  const Outcome outcome = run("run", "");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const std::vector<Record> found = records("run", "evaluation");
  ASSERT_EQ(found.size(), 6U);
  EXPECT_LT(found.back().number("validation_loss", 9),
            found.front().number("validation_loss", 0));
  EXPECT_GT(found.back().number("loss", 0), found.front().number("loss", 9))
      << "the test split would have chosen otherwise";
  EXPECT_TRUE(records("run", "early_stop").empty());
  EXPECT_EQ(best("run"), "turn-000030");
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("validation loss"),
                    HasSubstr("Best by the validation split after turn 30")));
}

TEST_F(Contrary, WithoutOneTheTestSplitChoosesAndIsNamed) {
  // The last fifth is half 'a' and half 'b': what is learned hurts there.
  const Outcome outcome = run("run", "data.validation=0.2 data.test=0");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(records("run", "evaluation").front().find("validation_loss"),
            nullptr);
  ASSERT_EQ(records("run", "early_stop").size(), 1U);
  EXPECT_EQ(records("run", "early_stop")[0].text("split"), "test");
  EXPECT_NE(best("run"), "turn-000030");
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("Early stop after turn"),
                    HasSubstr("chosen by the test split itself")));
}

TEST_F(Contrary, EverySplitIsEvaluatedAlikeOnEveryEngineAndAfterAResume) {
  ASSERT_EQ(run("virtual", "").status, 0);
  const auto expected = evaluations("virtual");
  ASSERT_EQ(run("threads", "engine=threads").status, 0);
  EXPECT_EQ(evaluations("threads"), expected);
  ASSERT_EQ(run("processes", "engine=processes").status, 0);
  EXPECT_EQ(evaluations("processes"), expected);
  ASSERT_EQ(run("resumed", "turns=15").status, 0);
  const Outcome resumed =
      sluice("run --resume " + path("resumed") + " turns=30");
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(evaluations("resumed"), expected);
  EXPECT_EQ(best("resumed"), "turn-000030");
}

TEST_F(Contrary, EvalTakesEitherSplitAndTheRecordAgrees) {
  ASSERT_EQ(run("run", "").status, 0);
  const Record last = records("run", "evaluation").back();
  EXPECT_THAT(sluice("eval " + path("run") + " --validation").text,
              HasSubstr(fmt::format("validation loss {:.4f}",
                                    last.number("validation_loss", 0))));
  EXPECT_THAT(
      sluice("eval " + path("run")).text,
      HasSubstr(fmt::format("test loss {:.4f}", last.number("loss", 0))));
  ASSERT_EQ(run("without", "data.test=0").status, 0);
  const Outcome without = sluice("eval " + path("without") + " --validation");
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.text, HasSubstr("without a validation split"));
}

TEST_F(Contrary, WatchAndTensorBoardNameTheSplits) {
  ASSERT_EQ(run("run", "").status, 0);
  EXPECT_THAT(sluice("watch --once " + path("run")).text,
              AllOf(HasSubstr("validation loss"), HasSubstr("test loss")));
  std::string events;
  for (const auto& entry : fs::directory_iterator(path("run")))
    if (entry.path().filename().string().starts_with("events."))
      events = slurp(entry.path().string());
  EXPECT_THAT(events, AllOf(HasSubstr("evaluation/validation_loss"),
                            HasSubstr("evaluation/loss")));
}

TEST_F(Contrary, HalvingKeepsTheCellsThatTheValidationSplitPrefers) {
  const std::string command =
      "sweep " + path("contrary.toml") +
      " early_stop.patience=0 optimizer.lr=1e-9,0.01"
      " 'sweep.halving={rungs=[0.5], measure=\"loss\"}' --dir ";
  const Outcome chosen = sluice(command + path("chosen"));
  ASSERT_EQ(chosen.status, 0) << chosen.text;
  EXPECT_TRUE(fs::exists(path("chosen/cells/001-1e-09/seed-1.pruned")));
  EXPECT_TRUE(fs::exists(path("chosen/cells/002-0.01/seed-1/done")));
  const Outcome by_test = sluice(
      command + path("test") + " data.validation=0.1 data.test=0 data.file=" +
      write("b", std::string(3600, 'a') + std::string(400, 'b')));
  ASSERT_EQ(by_test.status, 0) << by_test.text;
  EXPECT_TRUE(fs::exists(path("test/cells/002-0.01/seed-1.pruned")));
}

TEST_F(Contrary, ADriverHearsTheFiguresToChooseBy) {
  const Outcome outcome =
      shell("echo '{\"params\": {\"optimizer.lr\": 0.01}}' | " SLUICE_PROGRAM
            " sweep " +
            path("contrary.toml") + " --ask-tell --dir " + path("asked"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("\"split\":\"validation\""),
                                  HasSubstr("\"test_loss\":")));
  const std::string end =
      outcome.text.substr(outcome.text.rfind("{\"event\":\"end\""));
  const auto figure = [&](const std::string& name) {
    return std::stod(
        end.substr(end.find("\"" + name + "\":") + name.size() + 3));
  };
  EXPECT_LT(figure("loss"), figure("test_loss"));
  EXPECT_LE(figure("best_loss"), figure("loss"));
}

/// Runs that were written, not trained: two evaluations each.
class ChosenReport : public ReportFolder {
 protected:
  struct Figures {
    double test = 0;
    double validation = 0;
  };
  void make(const std::string& name, const std::string& config,
            const std::vector<Figures>& evaluations) const {
    make_run(name, {.more_config = config});
    std::string lines;
    std::int64_t turn = 10;
    for (const Figures& each : evaluations) {
      lines += fmt::format(
          R"({{"kind":"evaluation","turn":{},"loss":1.0,"accuracy":{})", turn,
          each.test);
      if (each.validation > 0)
        lines +=
            fmt::format(R"(,"validation_loss":1.0,"validation_accuracy":{})",
                        each.validation);
      lines += ",\"time\":1.0}\n";
      turn += 10;
    }
    write(name + "/metrics.jsonl",
          lines + "{\"kind\":\"summary\",\"name\":\"fake\",\"seconds\":1.0}\n");
  }
  std::string markdown() const {
    return slurp(report::write_report({.folders = {folder_}}).markdown);
  }
};

TEST_F(ChosenReport, JudgesARunWhereTheValidationSplitChoseIt) {
  make("a", "checkpoint = {best = \"accuracy\"}\n", {{0.61, 0.9}, {0.72, 0.8}});
  EXPECT_THAT(markdown(),
              AllOf(HasSubstr("61.00 (1)"), HasSubstr("90.00 (1)"),
                    Not(HasSubstr("72.00")), HasSubstr("validation accuracy"),
                    HasSubstr("which the validation split chose")));
}

TEST_F(ChosenReport, JudgesOthersByTheLastEvaluation) {
  make("a", "", {{0.61, 0.9}, {0.72, 0.8}});
  EXPECT_THAT(markdown(), AllOf(HasSubstr("72.00 (1)"), HasSubstr("80.00 (1)"),
                                Not(HasSubstr("61.00"))));
}

TEST_F(ChosenReport, MarksWhatTheTestSplitChose) {
  make("a", "early_stop = {patience = 3}\n", {{0.61}, {0.72}});
  EXPECT_THAT(markdown(), AllOf(HasSubstr("72.00 (1)"),
                                HasSubstr("test split itself chose"),
                                Not(HasSubstr("validation accuracy"))));
}

TEST_F(ChosenReport, TakesTheBestLearningRateOfTheValidationSplit) {
  const auto config = [](const char* blocks, const char* lr) {
    return fmt::format("model = {{width = {}}}\nlr = {}\n", blocks, lr);
  };
  make("a", config("1", "0.1"), {{0.6, 0.9}});
  make("b", config("1", "0.2"), {{0.7, 0.8}});
  make("c", config("2", "0.1"), {{0.5, 0.9}});
  make("d", config("2", "0.2"), {{0.8, 0.7}});
  report::write_report({.folders = {folder_}});
  const std::string page = slurp(path("report.html"));
  EXPECT_THAT(page, HasSubstr("best mean on the validation split"));
  const std::string figure =
      slurp(path("report_figures/test_accuracy_by_model.width.svg"));
  EXPECT_THAT(figure, AllOf(HasSubstr(": 60 at 1"), HasSubstr(": 50 at 2"),
                            Not(HasSubstr(": 80 at 2"))));
}

TEST_F(ChosenReport, SaysWhereTheTestSplitChoseAmongLearningRates) {
  make("a", "model = {width = 1}\nlr = 0.1\n", {{0.6}});
  make("b", "model = {width = 2}\nlr = 0.1\n", {{0.7}});
  make("c", "model = {width = 2}\nlr = 0.2\n", {{0.8}});
  report::write_report({.folders = {folder_}});
  EXPECT_THAT(slurp(path("report.html")),
              HasSubstr("it looks better than it is: set data.validation"));
}

}  // namespace sluice::validation_test
