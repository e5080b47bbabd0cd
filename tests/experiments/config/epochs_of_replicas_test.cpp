// Epochs of a run with replicas are batches trained on over the batches of the
// split: its length, phases, milestones, evaluations and checkpoints go by
// them, and so does what it says.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/config/experiment.h"
#include "experiments/config/tables/lengths.h"
#include "experiments/sweep/halving.h"
#include "lib/metrics/records.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::epochs_of_replicas_test {

using Turns = std::vector<std::int64_t>;

/// 410 samples in 7 batches.
Experiment experiment_of(std::int64_t replicas, double epochs,
                         const std::string& more = "") {
  return small_experiment(fmt::format(
      "turns = 0\nepochs = {}\nbatch_size = 64\nblocks = 1\n"
      "data = {{train = 410, test = 16}}\nmodel = {{hidden = [8]}}\n"
      "replicas = {{count = {}}}\n{}",
      epochs, replicas, more));
}

Turns turns_at(const Rhythm& rhythm, std::int64_t end) {
  Turns turns;
  for (std::int64_t turn = 1; turn <= end; ++turn)
    if (rhythm.is_at(turn)) turns.push_back(turn);
  return turns;
}

TEST(EpochsOfReplicas, AreOneDefinitionForAllThatGoesByThem) {
  const Experiment experiment =
      experiment_of(4, 4,
                    "checkpoint = {every = 1.0}\n"
                    "timetable = [{epoch = 2.0, accumulate = 2}]\n"
                    "optimizer = {lr = 1.0, schedule = {name = 'step', "
                    "milestones = [1.0, 2.0], factor = 0.5}}\n");
  EXPECT_EQ(experiment.length.turns, 7) << "28 batches of 4 replicas";
  const Turns after_each = {2, 4, 6, 7};
  EXPECT_EQ(turns_at(experiment.length.evaluate_every, 7), after_each);
  EXPECT_EQ(turns_at(experiment.length.checkpoint_every, 7), after_each);
  EXPECT_EQ(experiment.length.switches.at(0).turn, 4);
  const LearningRate& rate = experiment.optimizers.at(0).learning_rate;
  const std::vector<double> expected = {1, 1, 0.5, 0.5, 0.25, 0.25, 0.25};
  for (std::int64_t turn = 0; turn < 7; ++turn)
    EXPECT_EQ(rate.at(turn, 7, epochs_of(experiment)),
              expected[static_cast<std::size_t>(turn)])
        << turn;
  EXPECT_EQ(sweep::turn_of_rung(experiment, 1), 2);
  EXPECT_EQ(batches_left_over(experiment), 0);
}

TEST(EpochsOfReplicas, WarmUpByTheSameDefinition) {
  const Experiment experiment = experiment_of(
      2, 4, "optimizer = {lr = 1.0, schedule = {warmup_epochs = 2.0}}\n");
  EXPECT_EQ(experiment.length.turns, 14);
  const LearningRate& rate = experiment.optimizers.at(0).learning_rate;
  for (std::int64_t turn = 0; turn < 7; ++turn)  // 2 epochs are 7 turns
    EXPECT_DOUBLE_EQ(rate.at(turn, 14, epochs_of(experiment)),
                     static_cast<double>(turn + 1) / 7);
}

class Evaluations final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto evaluation = record.as<records::Evaluation>())
      epochs.push_back(evaluation->epoch);
  }
  std::vector<double> epochs;
};

std::vector<double> epochs_evaluated(const Experiment& experiment) {
  const auto sink = std::make_shared<Evaluations>();
  Training training(experiment, sink);
  training.train();
  return sink->epochs;
}

TEST(EpochsOfReplicas, EndWithTheEpochThatWasAskedFor) {
  for (const auto& [replicas, epochs] :
       std::vector<std::pair<std::int64_t, double>>{
           {1, 2}, {2, 2}, {7, 3}, {4, 4}, {3, 3}}) {
    const auto evaluated = epochs_evaluated(experiment_of(replicas, epochs));
    EXPECT_EQ(static_cast<double>(evaluated.size()), epochs) << replicas;
    EXPECT_EQ(evaluated.back(), epochs) << replicas;
    for (std::size_t n = 0; n < evaluated.size(); ++n)
      EXPECT_GE(evaluated[n], static_cast<double>(n + 1)) << replicas;
  }
}

// 21 batches are 5 turns of 4 replicas and a rest, of which not all would have
// one.
TEST(EpochsOfReplicas, SayWhatIsLeftOver) {
  const Experiment experiment = experiment_of(4, 3);
  EXPECT_EQ(experiment.length.turns, 5);
  EXPECT_EQ(batches_left_over(experiment), 1);
  const auto evaluated = epochs_evaluated(experiment);
  ASSERT_EQ(evaluated.size(), 3U);
  EXPECT_DOUBLE_EQ(evaluated.back(), 20.0 / 7);
}

TEST(EpochsOfReplicas, EpochsOfOneReplicaAreWhatTheyWere) {
  const Experiment experiment = experiment_of(1, 3, "evaluate_every = 0.5\n");
  EXPECT_EQ(experiment.length.turns, 21);
  EXPECT_EQ(turns_at(experiment.length.evaluate_every, 21),
            (Turns{4, 8, 12, 16, 20}));
}

}  // namespace sluice::epochs_of_replicas_test
