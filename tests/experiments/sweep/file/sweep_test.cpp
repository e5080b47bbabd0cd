// The plan of a sweep: axes, cells, and the file that says them.
#include "experiments/sweep/file/sweep.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/folder/child_run.h"
#include "experiments/sweep/file/axis_text.h"
#include "experiments/sweep/file/cells.h"
#include "experiments/sweep/file/plan_file.h"
#include "experiments/sweep/file/read_sweep.h"
#include "experiments/sweep/halving.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::sweep::sweep_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::ThrowsMessage;

TEST(SplitValues, LeavesBracketsAndQuotesWhole) {
  EXPECT_THAT(split_values("a, b,c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split_values("{a = 1, b = [2, 3]},{c = 4}"),
              ElementsAre("{a = 1, b = [2, 3]}", "{c = 4}"));
  EXPECT_THAT(split_values(R"('x,y',"z\",",w)"),
              ElementsAre("'x,y'", R"("z\",")", "w"));
  EXPECT_THAT(split_values("one"), ElementsAre("one"));
}

TEST(AxisOfText, OneValueIsAnOverride) {
  EXPECT_FALSE(axis_of_text("model.hidden=[64, 64]"));
  EXPECT_FALSE(axis_of_text("name='a,b'"));
}

TEST(AxisOfText, ReadsValuesAsOverridesAre) {
  const auto axis = axis_of_text("optimizer.lr=0.1,1e-2,word");
  ASSERT_TRUE(axis);
  EXPECT_EQ(axis->key, "optimizer.lr");
  ASSERT_THAT(axis->values, SizeIs(3));
  EXPECT_EQ(axis->values[1].literal(), "0.01");
  EXPECT_EQ(axis->values[2].literal(), "\"word\"");
}

TEST(AxisOfText, ReadsRangesAndConditions) {
  const auto axis =
      axis_of_text("optimizer.lr=log_uniform(1e-4, 0.1) if boundary=a,b");
  ASSERT_TRUE(axis && axis->range && axis->when);
  EXPECT_EQ(axis->range->kind, Range::Kind::log_uniform);
  EXPECT_EQ(axis->range->low, 1e-4);
  EXPECT_EQ(axis->range->high, 0.1);
  EXPECT_EQ(axis->when->key, "boundary");
  EXPECT_THAT(axis->when->values, SizeIs(2));
}

std::vector<std::string> labels_of(const std::vector<Cell>& cells) {
  std::vector<std::string> labels;
  for (const Cell& cell : cells) labels.push_back(cell.label);
  return labels;
}

class SweepPlans : public Program {
 protected:
  Sweep read(const std::string& text, const SweepWords& words = {}) const {
    return read_sweep(write("config.toml", text), words);
  }
  std::vector<std::string> labels(const std::string& text,
                                  const SweepWords& words = {}) const {
    return labels_of(cells_of(read(text, words)));
  }
};

constexpr const char* kTwoAxes =
    "[[sweep.axis]]\nkey = 'model.width'\nvalues = [8, 16]\n"
    "[[sweep.axis]]\nkey = 'optimizer.lr'\nvalues = [0.1, 0.01]\n";

TEST_F(SweepPlans, AGridIsTheProductOfItsAxesTheLastOneFastest) {
  EXPECT_THAT(labels(kTwoAxes),
              ElementsAre("width=8, lr=0.1", "width=8, lr=0.01",
                          "width=16, lr=0.1", "width=16, lr=0.01"));
}

TEST_F(SweepPlans, ZippedAxesMoveTogether) {
  const auto both = ElementsAre("width=8, lr=0.1", "width=16, lr=0.01");
  EXPECT_THAT(labels(std::string("[sweep]\nkind = 'zip'\n") + kTwoAxes), both);
  EXPECT_THAT(labels(kTwoAxes, {.zip = true}), both);
}

TEST_F(SweepPlans, TwoOfThreeAxesMayMoveTogether) {
  EXPECT_THAT(labels(std::string(kTwoAxes) +
                     "with = 'model.width'\n"
                     "[[sweep.axis]]\nkey = 'batch_size'\nvalues = [1, 2]\n"),
              ElementsAre("width=8, lr=0.1, batch_size=1",
                          "width=8, lr=0.1, batch_size=2",
                          "width=16, lr=0.01, batch_size=1",
                          "width=16, lr=0.01, batch_size=2"));
}

TEST_F(SweepPlans, AListHasTheCellsThatAreWrittenOut) {
  const std::string text =
      "[sweep]\nkind = 'list'\n"
      "[[sweep.cell]]\nlabel = 'small'\nset = ['model.width=8', 'a=[1, 2]']\n"
      "[[sweep.cell]]\nset = ['model.width=9']\n";
  const std::vector<Cell> cells = cells_of(read(text));
  EXPECT_THAT(labels_of(cells), ElementsAre("small", "width=9"));
  EXPECT_THAT(keys_of(read(text)), ElementsAre("model.width", "a"));
  EXPECT_EQ(cells[0].values[1].second.literal(), "[1, 2]");
}

TEST_F(SweepPlans, RefuseASettingThatAListedCellWouldOverwrite) {
  const auto reading = [&](const char* setting) {
    return [this, setting] {
      read(
          "[sweep]\nkind = 'list'\n"
          "[[sweep.cell]]\nlabel = 'wide'\nset = ['model={width = 8}']\n",
          {.settings = {setting}});
    };
  };
  EXPECT_THAT(reading("model.width=7"),
              ThrowsMessage<UserError>(HasSubstr("cell 'wide' sets 'model'")));
  EXPECT_THAT(reading("model=3"),
              ThrowsMessage<UserError>(HasSubstr("would be lost")));
  EXPECT_NO_THROW(reading("models=3")());
}

TEST_F(SweepPlans, ATableIsCalledByItsPolicyAndAnAxisMayHaveLabels) {
  const std::string axis =
      "[[sweep.axis]]\nkey = 'boundary'\n"
      "values = [{policy = 'a', x = 1}, {policy = 'b'}]\n";
  EXPECT_THAT(labels(axis), ElementsAre("boundary=a", "boundary=b"));
  EXPECT_THAT(labels(axis + "labels = ['A', 'B']\n"),
              ElementsAre("boundary=A", "boundary=B"));
  EXPECT_THAT(labels("[[sweep.axis]]\nkey = 'boundary'\n"
                     "values = [{policy = 'a', x = 1}, {policy = 'a'}]\n"),
              ElementsAre("boundary={policy = \"a\", x = 1}",
                          "boundary={policy = \"a\"}"));
}

TEST_F(SweepPlans, KeysThatEndAlikeAreWrittenOut) {
  EXPECT_THAT(labels("", {.settings = {"model.name=a,b", "data.name=c,d"}})[0],
              "model.name=a, data.name=c");
}

TEST_F(SweepPlans, AConditionalAxisHoldsOnlyWhereItsConditionDoes) {
  const std::string first =
      "[[sweep.axis]]\nkey = 'boundary'\n"
      "values = [{policy = 'a'}, {policy = 'b'}]\nlabels = ['A', 'B']\n";
  const std::string second =
      "[[sweep.axis]]\nkey = 'boundary.x'\nvalues = [1, 2]\n";
  const auto three =
      ElementsAre("boundary=A", "boundary=B, x=1", "boundary=B, x=2");
  EXPECT_THAT(labels(first + second + "when = 'boundary.policy=b'\n"), three);
  EXPECT_THAT(labels(first + second + "when = 'boundary=B'\n"), three);
  EXPECT_THAT(labels(first, {.settings = {"boundary.x=1,2 if boundary=B"}}),
              three);
}

TEST_F(SweepPlans, AConditionMayNameALabelThatLooksLikeANumber) {
  EXPECT_THAT(labels("[[sweep.axis]]\nkey = 'boundary'\n"
                     "values = [{policy = 'a'}, {policy = 'b'}]\n"
                     "labels = ['4', '8']\n"
                     "[[sweep.axis]]\nkey = 'boundary.x'\nvalues = [1, 2]\n"
                     "when = 'boundary=8'\n"),
              ElementsAre("boundary=4", "boundary=8, x=1", "boundary=8, x=2"));
}

constexpr const char* kRatesOfEach =
    "[[sweep.axis]]\nkey = 'policy'\nvalues = ['a', 'b', 'c']\n"
    "[[sweep.axis]]\nkey = 'lr'\nvalues = [1, 2]\nwhen = 'policy=a'\n"
    "[[sweep.axis]]\nkey = 'lr'\nvalues = [3]\nwhen = 'policy=b,c'\n";

TEST_F(SweepPlans, AnAxisMayHaveOtherValuesUnderAnotherCondition) {
  const auto four = ElementsAre("policy=a, lr=1", "policy=a, lr=2",
                                "policy=b, lr=3", "policy=c, lr=3");
  EXPECT_THAT(labels(kRatesOfEach), four);
  EXPECT_THAT(labels("", {.settings = {"policy=a,b,c", "lr=1,2 if policy=a",
                                       "lr=3 if policy=b,c"}}),
              four);
  EXPECT_THAT(labels(kRatesOfEach, {.settings = {"lr=4 if policy=a"}}),
              ElementsAre("policy=a, lr=4", "policy=b", "policy=c"));
}

TEST_F(SweepPlans, AnAxisOfTheCommandLineTakesThePlaceOfTheFiles) {
  EXPECT_THAT(
      labels(kTwoAxes, {.settings = {"model.width=1,2,3", "optimizer.lr=0.5"}}),
      ElementsAre("width=1, lr=0.5", "width=2, lr=0.5", "width=3, lr=0.5"));
}

TEST_F(SweepPlans, OtherSettingsGoIntoTheConfigOfAllCells) {
  const Sweep sweep = read(kTwoAxes, {.settings = {"epochs=7"}});
  EXPECT_THAT(sweep.axes, SizeIs(2));
  EXPECT_EQ(sweep.config.find("epochs")->literal(), "7");
  EXPECT_EQ(sweep.config.find("sweep"), nullptr);
}

TEST_F(SweepPlans, SeedsAreCountedFromTheConfigsOrListed) {
  EXPECT_THAT(read("").seeds, ElementsAre(1));
  EXPECT_THAT(read("seed = 5").seeds, ElementsAre(5));
  EXPECT_THAT(read("[sweep]\nseeds = 3").seeds, ElementsAre(1, 2, 3));
  EXPECT_THAT(read("[sweep]\nseeds = [4, 2]").seeds, ElementsAre(4, 2));
  EXPECT_THAT(read("[sweep]\nseeds = 3", {.seeds = "2"}).seeds,
              ElementsAre(1, 2));
  EXPECT_THAT(read("", {.seeds = "7,9"}).seeds, ElementsAre(7, 9));
}

constexpr const char* kRandom =
    "[sweep]\nkind = 'random'\nsamples = 40\n"
    "[[sweep.axis]]\nkey = 'u'\nuniform = [-1, 3]\n"
    "[[sweep.axis]]\nkey = 'l'\nlog_uniform = [1e-4, 1]\n"
    "[[sweep.axis]]\nkey = 'i'\nint = [2, 4]\n"
    "[[sweep.axis]]\nkey = 'c'\nvalues = ['x', 'y']\n";

TEST_F(SweepPlans, ARandomSweepDrawsInsideItsRanges) {
  int small = 0;
  std::vector<int> seen(5, 0);
  const std::vector<Cell> cells = cells_of(read(kRandom));
  ASSERT_THAT(cells, SizeIs(40));
  for (const Cell& cell : cells) {
    const double uniform = std::get<double>(cell.values[0].second.value);
    const double log = std::get<double>(cell.values[1].second.value);
    const auto whole = std::get<std::int64_t>(cell.values[2].second.value);
    EXPECT_TRUE(uniform >= -1 && uniform < 3) << uniform;
    EXPECT_TRUE(log >= 1e-4 && log < 1) << log;
    ASSERT_TRUE(whole >= 2 && whole <= 4) << whole;
    small += log < 1e-2 ? 1 : 0;
    ++seen[static_cast<std::size_t>(whole)];
  }
  // Half of them lie in the lower half of the exponents.
  EXPECT_GT(small, 10);
  EXPECT_LT(small, 30);
  EXPECT_TRUE(seen[2] > 0 && seen[3] > 0 && seen[4] > 0);
}

TEST_F(SweepPlans, ARandomCellIsTheSameWhateverTheirNumber) {
  const auto many = labels(kRandom);
  const auto few = labels(kRandom, {.samples = 7});
  ASSERT_THAT(few, SizeIs(7));
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(labels(kRandom, {.settings = {"sweep.sample_seed=2"}}), many);
}

TEST_F(SweepPlans, ADrawDoesNotDependOnOtherAxes) {
  const auto first = cells_of(read(kRandom));
  const auto more = cells_of(read(
      std::string(kRandom) + "[[sweep.axis]]\nkey = 'z'\nuniform = [0, 1]\n"));
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(first[i].values[1], more[i].values[1]);
}

TEST_F(SweepPlans, ACellThatIsDrawnTwiceIsThereOnce) {
  EXPECT_THAT(labels("", {.settings = {"c=x,y"}, .samples = 50}), SizeIs(2));
}

TEST_F(SweepPlans, WithoutAxesThereIsOneCell) {
  EXPECT_THAT(labels("", {.seeds = "3"}), ElementsAre("all"));
}

TEST_F(SweepPlans, TheFileIsTheSameEachTime) {
  const Sweep sweep = read(kTwoAxes, {.seeds = "2"});
  write_plan(folder_, plan_of(sweep));
  const std::string first = slurp(path("sweep.json"));
  write_plan(folder_, placed(plan_of(sweep), folder_));
  EXPECT_EQ(slurp(path("sweep.json")), first);
  EXPECT_EQ(to_json(plan_of(sweep))["cells"][1].dump(),
            R"({"id":"002","folder":"cells/002-8-0.01",)"
            R"("label":"width=8, lr=0.01",)"
            R"("values":{"model.width":8,"optimizer.lr":0.01},"seeds":[1,2]})");
}

TEST_F(SweepPlans, CellsThatAreAddedComeBehindThoseThatAreThere) {
  write_plan(folder_, plan_of(read("", {.settings = {"a=1,2"}})));
  const SweepPlan plan = placed(
      plan_of(read("", {.settings = {"a=3,2,1"}, .seeds = "2"})), folder_);
  std::vector<std::string> folders;
  for (const PlannedCell& cell : plan.cells) folders.push_back(cell.folder);
  EXPECT_THAT(folders,
              ElementsAre("cells/001-1", "cells/002-2", "cells/003-3"));
  EXPECT_THAT(plan.cells[0].seeds, ElementsAre(1, 2));
}

/// What placed() says of another plan than that of "a=1,2", seeds 1 and 2.
class OtherPlans : public SweepPlans {
 protected:
  std::string refusal(const std::vector<std::string>& settings,
                      const std::string& seeds = "2") {
    write_plan(folder_,
               plan_of(read("", {.settings = {"a=1,2"}, .seeds = "2"})));
    try {
      placed(plan_of(read("", {.settings = settings, .seeds = seeds})),
             folder_);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(OtherPlans, AreRefusedSayingWhatDiffers) {
  EXPECT_THAT(refusal({"a=1,2", "b=1,2"}),
              HasSubstr("its axes are [a], not [a, b]"));
  EXPECT_THAT(refusal({"a=1,3"}), HasSubstr("it has the cell 002 (a=2)"));
  EXPECT_THAT(refusal({"a=1,2"}, "1"), HasSubstr("it has seed 2 of a=1"));
  EXPECT_THAT(refusal({"a=2,1,4"}, "3"), IsEmpty());
}

TEST_F(SweepPlans, ADamagedFileIsAnErrorThatNamesIt) {
  write("sweep.json", "{\"axes\": []}");
  EXPECT_THROW(placed(plan_of(read("")), folder_), UserError);
  write("sweep.json", "{");
  EXPECT_THROW(placed(plan_of(read("")), folder_), UserError);
}

TEST_F(SweepPlans, NamesOfFoldersAreTakenByAnyFileSystem) {
  const SweepPlan plan =
      plan_of(read("", {.settings = {"a='x/../y z',[1, 2]",
                                     "b.c=" + std::string(99, 'n') + ",ö"}}));
  EXPECT_EQ(plan.cells[0].folder, "cells/001-x_.._y_z-" + std::string(24, 'n'));
  EXPECT_EQ(plan.cells[3].folder, "cells/004-1_2");
}

struct Misuse {
  const char* name;
  const char* text;
  const char* says;
};

class BadSweeps : public SweepPlans,
                  public testing::WithParamInterface<Misuse> {};

TEST_P(BadSweeps, AreErrorsThatSayWhatIsWrong) {
  try {
    plan_of(read(GetParam().text));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadSweeps,
    testing::Values(
        Misuse{"UnknownKey", "[sweep]\nseed = 3", "did you mean 'seeds'"},
        Misuse{"UnknownKind", "[sweep]\nkind = 'gird'", "sweep.kind"},
        Misuse{"NoKey", "[[sweep.axis]]\nvalues = [1]",
               "an axis needs the key"},
        Misuse{"NoValues", "[[sweep.axis]]\nkey = 'a'",
               "axis a: has no values"},
        Misuse{"NoList", "[[sweep.axis]]\nkey = 'a'\nvalues = 3",
               "expected a list, not integer 3"},
        Misuse{"FewerLabels",
               "[[sweep.axis]]\nkey = 'a'\nvalues = [1, 2]\nlabels = ['x']",
               "has 1 labels for 2 values"},
        Misuse{"TheSameValue", "[[sweep.axis]]\nkey = 'a'\nvalues = [1, 1]",
               "has the value 1 twice"},
        Misuse{"TheSameAxis",
               "[[sweep.axis]]\nkey = 'a'\nvalues = [1]\n"
               "[[sweep.axis]]\nkey = 'a'\nvalues = [2]",
               "axis a: is there twice"},
        Misuse{"ASeedAsAnAxis", "[[sweep.axis]]\nkey = 'seed'\nvalues = [1]",
               "--seeds"},
        Misuse{"ABillionRuns",
               "[sweep]\nseeds = 50000\n[[sweep.axis]]\nkey = 'a'\n"
               "values = [1, 2, 3]",
               "3 cells with 50000 seeds are more than 100000 runs"},
        Misuse{"RangeInAGrid", "[[sweep.axis]]\nkey = 'a'\nuniform = [0, 1]",
               "give --samples N"},
        Misuse{"RangeOfOneNumber",
               "[sweep]\nkind = 'random'\nsamples = 2\n"
               "[[sweep.axis]]\nkey = 'a'\nint = [3]",
               "wants two numbers"},
        Misuse{"RangeUpsideDown",
               "[sweep]\nkind = 'random'\nsamples = 2\n"
               "[[sweep.axis]]\nkey = 'a'\nuniform = [3, 1]",
               "not below the high end"},
        Misuse{"LogarithmOfZero",
               "[sweep]\nkind = 'random'\nsamples = 2\n"
               "[[sweep.axis]]\nkey = 'a'\nlog_uniform = [0, 1]",
               "ends above 0"},
        Misuse{"NoSamples",
               "[sweep]\nkind = 'random'\n"
               "[[sweep.axis]]\nkey = 'a'\nvalues = [1, 2]",
               "wants --samples N"},
        Misuse{"ConditionOnNothing",
               "[[sweep.axis]]\nkey = 'a'\nvalues = [1]\nwhen = 'b=2'",
               "no axis before it sets 'b'"},
        Misuse{"ConditionThatNeverHolds",
               "[[sweep.axis]]\nkey = 'b'\nvalues = [1]\n"
               "[[sweep.axis]]\nkey = 'a'\nvalues = [1]\nwhen = 'b=2'",
               "axis a: holds in no cell"},
        Misuse{"TwoConditionsOfAnAxisThatHoldAtOnce",
               "[[sweep.axis]]\nkey = 'b'\nvalues = [1, 2]\n"
               "[[sweep.axis]]\nkey = 'a'\nvalues = [1]\nwhen = 'b=1,2'\n"
               "[[sweep.axis]]\nkey = 'a'\nvalues = [2]\nwhen = 'b=2'",
               "axis a: two of its conditions hold at once"},
        Misuse{"ListOfNothing", "[sweep]\nkind = 'list'", "wants cells"},
        Misuse{"CellThatIsThereTwice",
               "[sweep]\nkind = 'list'\n[[sweep.cell]]\nset = ['a=1']\n"
               "[[sweep.cell]]\nset = ['a=1']",
               "the cell 'a=1' is there twice"},
        Misuse{"CellThatSetsNothing",
               "[sweep]\nkind = 'list'\n[[sweep.cell]]\nset = ['a']",
               "'a' is no key=value"},
        Misuse{"CellWithASeedOfItsOwn",
               "[sweep]\nkind = 'list'\n[[sweep.cell]]\nset = ['seed=2']",
               "give them with --seeds"},
        Misuse{"RungsThatGoDown", "[sweep]\nhalving = {rungs = [2, 1]}",
               "each is above 0"},
        Misuse{"NoSeeds", "[sweep]\nseeds = 0", "1 seed or more"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(BestCells, AreOneInSoManyInTheirOrder) {
  const double nan = std::nan("");
  EXPECT_THAT(best_cells({4, 5, 6, 7}, {0.1, 0.4, 0.2, 0.3}, 2),
              ElementsAre(5, 7));
  EXPECT_THAT(best_cells({1, 2, 3, 4}, {0.5, nan, 0.5, 0.6}, 3),
              ElementsAre(1, 4));
  EXPECT_THAT(best_cells({1, 2}, {nan, 0}, 9), ElementsAre(2));
}

TEST(Divided, CoresGoToSlotsInEqualParts) {
  EXPECT_THAT(divided({0, 1, 2, 3}, 2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(divided({4, 5, 6}, 2),
              ElementsAre(ElementsAre(4), ElementsAre(5, 6)));
  EXPECT_THAT(divided({0, 1}, 3),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(divided({}, 1), ElementsAre(IsEmpty()));
}

/// What a program that is started as a run says.
std::string said_by(const std::string& script, const MachineShare& share) {
  ChildRun child({"/bin/sh", "-c", script + " >&2"}, "typed\n", share);
  for (;;)
    if (const auto end = child.poll()) return end->error;
}

TEST(AChildRun, ReadsItsInputAndHasItsShareOfTheMachine) {
  const int core = usable_cores().back();
  EXPECT_EQ(said_by("cat", {}), "typed");
  EXPECT_EQ(said_by("taskset -cp $$ | sed 's/.* //'", {.cores = {core}}),
            std::to_string(core));
  EXPECT_EQ(said_by("echo $CUDA_VISIBLE_DEVICES", {.gpu = "3"}), "3");
}

TEST(AChildRun, SaysHowItEnded) {
  ChildRun child({"/bin/sh", "-c", "kill -9 $$"}, "", {});
  std::optional<ChildEnd> end;
  while (!end) end = child.poll();
  EXPECT_EQ(end->signal, 9);
  EXPECT_EQ(end->signal_text, "9 (Killed)");
}

TEST(SweepsOfTheRepository, CanBeRead) {
  const fs::path file = fs::path(SLUICE_TEST_FOLDER) /
                        "../experiments/configs/quickstart/sweep.toml";
  EXPECT_THAT(plan_of(read_sweep(file.string(), {})).cells, SizeIs(5));
}

}  // namespace sluice::sweep::sweep_test
