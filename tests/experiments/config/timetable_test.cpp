// Policies that change while a network trains: at the switch, what is in flight
// under the old policy is applied first, and every invariant of the new one
// holds from there on.
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "experiments/config/reading/read_experiment.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::timetable_test {

constexpr const char* kNet =
    "blocks = ['0', '1', '2-']\n"
    "model = {hidden = [24, 20], batch_norm = true}\n"
    "optimizer = {lr = 0.1, momentum = 0.9}\n";

std::string phases(const std::string& first, const std::string& then,
                   const std::string& when = "turn = 8") {
  return "boundary = " + first + "\ntimetable = [{" + when +
         ", boundary = " + then + "}]\n";
}
constexpr const char* kBackprop = "{policy = 'backprop'}";
constexpr const char* kDelayed = "{policy = 'delayed_gradient'}";
constexpr const char* kDecoupled = "{policy = 'fully_decoupled'}";
constexpr const char* kSynthetic = "{policy = 'synthetic_gradient'}";
constexpr const char* kLocal = "{policy = 'local_loss'}";

Applications applications(const std::string& lines) {
  Training training(small_experiment(lines));
  return training.train_and_record();
}

std::vector<ShownUpdate> part(const std::vector<ShownUpdate>& updates,
                              std::int64_t first, std::int64_t end) {
  std::vector<ShownUpdate> some;
  for (const ShownUpdate& update : updates)
    if (update.batch >= first && update.batch < end) some.push_back(update);
  return some;
}

/// Gradients of heads and of policies to come are left out: `count` are the
/// block's own.
std::vector<ShownUpdate> own(std::vector<ShownUpdate> updates,
                             std::size_t count) {
  for (ShownUpdate& update : updates) update.gradients.resize(count);
  return updates;
}

class Timetable : public testing::TestWithParam<const char*> {};

TEST_P(Timetable, EveryBlockAppliesEveryBatchOnce) {
  for (const char* first : {kBackprop, GetParam()}) {
    const Applications applied = applications(
        kNet + phases(first, first == GetParam() ? kBackprop : GetParam()));
    for (int block = 1; block <= 3; ++block) {
      ASSERT_EQ(applied.at(block).size(), 20U) << "block " << block;
      for (std::int64_t batch = 0; batch < 20; ++batch)
        EXPECT_EQ(applied.at(block)[static_cast<std::size_t>(batch)].batch,
                  batch);
    }
  }
}

TEST_P(Timetable, BeforeTheSwitchIsTheFirstPolicy) {
  const Applications switched =
      applications(kNet + phases(GetParam(), kBackprop));
  const Applications never =
      applications(kNet + ("boundary = " + std::string(GetParam()) + "\n"));
  for (int block = 1; block <= 3; ++block)
    EXPECT_EQ(
        difference(part(switched.at(block), 0, 6), part(never.at(block), 0, 6)),
        "");
}

TEST_P(Timetable, AfterTheSwitchIsAnotherPolicy) {
  const Applications switched =
      applications(kNet + phases(kBackprop, GetParam()));
  const Applications never =
      applications(kNet + ("boundary = " + std::string(kBackprop) + "\n"));
  EXPECT_EQ(difference(own(part(switched.at(1), 0, 8), 4),
                       own(part(never.at(1), 0, 8), 4)),
            "");
  EXPECT_NE(difference(own(part(switched.at(1), 8, 20), 4),
                       own(part(never.at(1), 8, 20), 4)),
            "");
}

INSTANTIATE_TEST_SUITE_P(Policies, Timetable,
                         testing::Values(kDelayed, kDecoupled, kSynthetic,
                                         kLocal),
                         [](const auto& info) {
                           std::string name = info.param;
                           name = name.substr(name.find('\'') + 1);
                           return name.substr(0, name.find('\''));
                         });

TEST(Timetables, ToTheSamePolicyChangesNothingWithoutDelay) {
  EXPECT_EQ(difference(applications(kNet + phases(kLocal, kLocal)).at(1),
                       applications(
                           kNet + ("boundary = " + std::string(kLocal) + "\n"))
                           .at(1)),
            "");
}

TEST(Timetables, StalenessBeginsAnewAfterTheSwitch) {
  const Applications applied =
      applications(kNet + phases(kDelayed, kDecoupled));
  // Batch 8 is the first of the second phase, in which block 1 has d = 4.
  for (const ShownUpdate& update : applied.at(1))
    EXPECT_EQ(update.turn - update.batch, update.batch < 8 ? 2 : 4);
}

TEST(Timetables, AHeadThatGoesOnKeepsItsWeights) {
  const std::string lines =
      kNet + phases(kLocal, "{policy = 'local_loss', reach = 1}");
  Training training(small_experiment(lines));
  at::Tensor before;
  training.watch = [&](const TimedAction& timed) {
    if (timed.seat != 1 || timed.action.turn != 7) return;
    for (const auto& [name, tensor] : training.block(1).weights())
      if (name == "heads.0.classifier.weight") before = tensor.detach().clone();
  };
  training.train();
  const NamedTensors weights = training.block(1).weights();
  int heads = 0;
  for (const auto& [name, tensor] : weights)
    if (name == "heads.0.classifier.weight") {
      ++heads;
      EXPECT_FALSE(tensor.equal(before));
      EXPECT_LT((tensor - before).norm().item<double>(),
                before.norm().item<double>());
    }
  EXPECT_EQ(heads, 1);
}

/// Keeps the records.
class RecordList final : public Sink {
 public:
  void write(const Record& record) override { records.push_back(record); }
  std::vector<Record> records;
};

std::vector<std::int64_t> switch_turns(const std::string& lines) {
  const auto kept = std::make_shared<RecordList>();
  Training training(small_experiment(lines), kept);
  training.train();
  std::vector<std::int64_t> turns;
  for (const Record& record : kept->records)
    if (record.text("kind") == "phase")
      turns.push_back(static_cast<std::int64_t>(record.number("turn", -1)));
  return turns;
}

TEST(Timetables, SwitchAtAnEpoch) {
  // 10 turns an epoch
  EXPECT_EQ(switch_turns(kNet + phases(kBackprop, kDelayed, "epoch = 1")),
            std::vector<std::int64_t>{10});
}

TEST(Timetables, SwitchWhenAMeasureIsReached) {
  const std::string rest =
      "turns = 40\nevaluate_every = 0.5\n" + std::string(kNet);
  EXPECT_EQ(switch_turns(rest + phases(kBackprop, kDelayed, "accuracy = 0.01")),
            std::vector<std::int64_t>{5});
  EXPECT_EQ(switch_turns(rest + phases(kBackprop, kDelayed, "loss = 0.0001")),
            std::vector<std::int64_t>{});
  const auto late =
      switch_turns(rest + phases(kDecoupled, kBackprop, "accuracy = 0.2"));
  ASSERT_EQ(late.size(), 1U);
  EXPECT_GT(late[0], 5);
}

TEST(Timetables, MayMakeTheBatchLargerInPlaceOfASmallerRate) {
  const Applications applied = applications(
      kNet +
      std::string(
          "timetable = [{turn = 8, accumulate = 3}, {turn = 17, boundary = "
          "{policy = 'local_loss'}}]\n"));
  for (int block = 1; block <= 3; ++block) {
    const auto& updates = applied.at(block);
    // 8 of one turn, then 3 of three, and one of three in the last phase.
    ASSERT_EQ(updates.size(), 12U) << "block " << block;
    EXPECT_EQ(updates[8].turn, 10);
    EXPECT_EQ(updates[11].turn, 19);
  }
}

TEST(Timetables, DoNotApplyAWindowThatThePhaseBeforeLeftIncomplete) {
  const Applications applied = applications(
      kNet + std::string("accumulate.batches = 3\n"
                         "timetable = [{turn = 4, accumulate = 1}]\n"));
  ASSERT_EQ(applied.at(1).size(), 17U);
  EXPECT_EQ(applied.at(1)[0].turn, 2);
  EXPECT_EQ(applied.at(1)[1].turn, 4);
}

TEST(Timetables, BoundariesOfWhichNothingIsSaidKeepTheirPolicy) {
  const Experiment experiment = small_experiment(
      kNet + std::string("boundary.1 = {policy = 'local_loss', head = {name = "
                         "'predsim'}}\n"
                         "boundary.2 = {policy = 'fully_decoupled', beta = "
                         "0.5}\n"
                         "timetable = [{turn = 4, boundary = {2 = {order = "
                         "'A'}}}, {turn = 9, boundary = {1 = {policy = "
                         "'backprop'}}}]\n"));
  ASSERT_EQ(experiment.phases.size(), 3U);
  EXPECT_EQ(experiment.phases[1][0].config, experiment.phases[0][0].config);
  EXPECT_EQ(experiment.phases[1][1].config.find("beta")->literal(), "0.5");
  EXPECT_EQ(experiment.phases[1][1].config.find("order")->literal(), "\"A\"");
  EXPECT_EQ(experiment.phases[2][0].name, "backprop");
  EXPECT_EQ(experiment.plans[2].blocks[0].delay, 2);
}

TEST(Timetables, ReadTheirResolvedConfigAsTheSame) {
  const Experiment experiment =
      small_experiment(kNet + phases(kBackprop, kDelayed, "epoch = 1"));
  const Experiment again = read_experiment(experiment.resolved, "");
  EXPECT_EQ(again.resolved, experiment.resolved);
  EXPECT_EQ(again.phases[1][0].config, experiment.phases[1][0].config);
}

// Phases that repeat, against the same written out: 4 turns of the first policy
// and 2 of the second, and both twice more.

std::string alternating(const std::string& rest,
                        const std::string& turns = "turns = 20\n") {
  return turns + kNet +
         "boundary = {1 = {policy = 'backprop'}, 2 = {policy = "
         "'fully_decoupled', beta = 0.5}}\n"
         "timetable = [{turn = 4, accumulate = 2, boundary = {policy = "
         "'local_loss'}}, " +
         rest + "]\n";
}
constexpr const char* kRepeated = "{turn = 6, repeat = 2}";
constexpr const char* kWrittenOut =
    "{turn = 6, accumulate = 1, boundary = {1 = {policy = 'backprop'}, 2 = "
    "{policy = 'fully_decoupled', beta = 0.5}}}, "
    "{turn = 10, accumulate = 2, boundary = {policy = 'local_loss'}}, "
    "{turn = 12, accumulate = 1, boundary = {1 = {policy = 'backprop'}, 2 = "
    "{policy = 'fully_decoupled', beta = 0.5}}}, "
    "{turn = 16, accumulate = 2, boundary = {policy = 'local_loss'}}";

TEST(RepeatedTimetable, IsTheSamePhasesWrittenOut) {
  const Experiment repeated = small_experiment(alternating(kRepeated));
  const Experiment written = small_experiment(alternating(kWrittenOut));
  ASSERT_EQ(repeated.phases.size(), 6U);
  ASSERT_EQ(written.phases.size(), 6U);
  ASSERT_EQ(repeated.plans.size(), 6U);
  EXPECT_EQ(repeated.accumulate_by_phase, written.accumulate_by_phase);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t k = 0; k < 2; ++k)
      EXPECT_EQ(repeated.phases[i][k].config, written.phases[i][k].config)
          << "phase " << i << ", boundary " << k + 1;
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_EQ(repeated.plans[i].blocks[k].delay,
                written.plans[i].blocks[k].delay);
    if (i == 0) continue;
    EXPECT_EQ(repeated.length.switches[i - 1].turn,
              written.length.switches[i - 1].turn);
  }
  EXPECT_NE(repeated.phases[1][0].config, repeated.phases[2][0].config);
}

TEST(RepeatedTimetable, HasTheBitsOfThePhasesWrittenOut) {
  const Applications repeated = applications(alternating(kRepeated));
  const Applications written = applications(alternating(kWrittenOut));
  const Applications once =
      applications(alternating("{turn = 6, accumulate = 1, boundary = {1 = "
                               "{policy = 'backprop'}, 2 = {policy = "
                               "'fully_decoupled', beta = 0.5}}}"));
  for (int block = 1; block <= 3; ++block) {
    EXPECT_EQ(difference(repeated.at(block), written.at(block)), "");
    EXPECT_NE(difference(repeated.at(block), once.at(block)), "");
  }
}

TEST(RepeatedTimetable, MayEndBeforeTheRunAndBehindIt) {
  const auto turns = [](const std::string& rest, const std::string& length) {
    return switch_turns(alternating(rest, length));
  };
  using Turns = std::vector<std::int64_t>;
  EXPECT_EQ(turns("{turn = 6, repeat = 1}", "turns = 20\n"), (Turns{4, 6, 10}));
  EXPECT_EQ(turns("{turn = 6, repeat = 100}", "turns = 11\n"),
            (Turns{4, 6, 10}));
  EXPECT_EQ(turns("{turn = 6, repeat = 1}, {turn = 13, boundary = {policy = "
                  "'backprop'}}",
                  "turns = 20\n"),
            (Turns{4, 6, 10, 13}));
}

TEST(RepeatedTimetable, GoesByEpochsToo) {
  // 10 turns an epoch
  EXPECT_EQ(switch_turns("turns = 40\n" + std::string(kNet) +
                         "timetable = [{epoch = 0.5, boundary = {policy = "
                         "'local_loss'}}, {epoch = 1.5, repeat = 9}]\n"),
            (std::vector<std::int64_t>{5, 15, 20, 30, 35}));
}

TEST(RepeatedTimetable, ReadsItsResolvedConfigAsTheSame) {
  const Experiment experiment = small_experiment(alternating(kRepeated));
  const Experiment again = read_experiment(experiment.resolved, "");
  EXPECT_EQ(again.resolved, experiment.resolved);
  EXPECT_EQ(again.phases.size(), 6U);
}

/// So that older runs keep their fingerprints.
TEST(RepeatedTimetable, IsInNoResolvedPhase) {
  const Experiment experiment = small_experiment(alternating(kRepeated));
  const auto& entries =
      std::get<ConfigNode::Array>(experiment.resolved.find("timetable")->value);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].find("repeat"), nullptr);
  ASSERT_NE(entries[1].find("repeat"), nullptr);
  EXPECT_EQ(entries[1].find("repeat")->literal(), "2");
}

}  // namespace sluice::timetable_test
