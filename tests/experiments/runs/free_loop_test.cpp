// A block that runs free on a thread of its own, alone with the ends of its
// neighbour's channels.
#include "lib/engines/free_loop.h"

#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::free_loop_test {

/// Block 2 of two; the test has the ends of block 1.
class IsolatedBlock : public testing::Test {
 protected:
  IsolatedBlock() {
    const Experiment experiment = small_experiment(
        "schedule = 'free'\nengine = 'threads'\ntimeout = 1\n"
        "model = {hidden = [24]}\nboundary = {policy = 'local_loss'}\n");
    std::vector<Ends> ends = memory_ends(experiment);
    below_ = std::move(ends[0].above);
    worker_ = make_seat(experiment, 2, std::move(ends[1]), nullptr, {});
    loop_ = std::make_unique<FreeLoop>(experiment.plans, *worker_);
  }

  Link below_;
  std::unique_ptr<Seat> worker_;
  std::unique_ptr<FreeLoop> loop_;
};

TEST_F(IsolatedBlock, HasNothingToDoInAGrantWithoutTurns) {
  EXPECT_EQ(loop_->carry_out({}), "");
  EXPECT_EQ(loop_->carry_out({.checkpoint = true}), "C0");
}

double thread_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

// It would take a second of the processor if it spun.
TEST_F(IsolatedBlock, SleepsUntilItGivesASilentNeighbourUp) {
  const double before = thread_seconds();
  EXPECT_THROW(loop_->carry_out({.end_turn = 1}), LinkError);
  EXPECT_LT(thread_seconds() - before, 0.3);
}

TEST_F(IsolatedBlock, SeesAtOnceThatItsNeighbourIsGone) {
  below_ = {};
  EXPECT_THROW(loop_->carry_out({.end_turn = 1}), LinkError);
}

}  // namespace sluice::free_loop_test
