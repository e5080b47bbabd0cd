// What is smoothed of a run with label_smoothing: the training, not what an
// evaluation reports.
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "lib/metrics/records.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::smoothed_loss_test {

class Losses final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto train = record.as<records::Train>())
      (train->block == 1 ? local : top) = train->loss.value_or(-1);
    if (const auto evaluation = record.as<records::Evaluation>())
      tested = evaluation->loss;
  }
  double local = 0;   ///< of block 1's head
  double top = 0;     ///< of block 2
  double tested = 0;  ///< of the evaluation
};

/// Losses of a run that leaves its weights as they are.
std::shared_ptr<Losses> losses_with(const std::string& loss) {
  const auto losses = std::make_shared<Losses>();
  Training training(
      small_experiment("turns = 1\nblocks = 2\nmodel = {hidden = [16]}\n"
                       "boundary = {policy = 'local_loss', head = {name = "
                       "'linear'}}\noptimizer = {name = 'sgd', lr = 0}\n" +
                       loss),
      losses);
  training.train();
  return losses;
}

TEST(LabelSmoothing, IsInTheLossesOfTheTrainingAndNotOfTheEvaluation) {
  const auto plain = losses_with("");
  const auto smoothed = losses_with("loss = {label_smoothing = 0.3}\n");
  EXPECT_GT(plain->tested, 0);
  EXPECT_EQ(smoothed->tested, plain->tested);
  EXPECT_NE(smoothed->top, plain->top);
  EXPECT_NE(smoothed->local, plain->local);
}

}  // namespace sluice::smoothed_loss_test
