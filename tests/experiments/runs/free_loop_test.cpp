// A block that runs free on a thread of its own, alone with the ends of its
// neighbour's channels.
#include "lib/engines/free_loop.h"

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/seat_runner.h"
#include "lib/schedules/plan/op_table.h"
#include "lib/workers/payloads.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::free_loop_test {

using testing::Contains;

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

// A loop that spun would take a second of processor time.
TEST_F(IsolatedBlock, SleepsUntilItGivesASilentNeighbourUp) {
  const double before = thread_seconds();
  EXPECT_THROW(loop_->carry_out({.end_turn = 1}), LinkError);
  EXPECT_LT(thread_seconds() - before, 0.3);
}

TEST_F(IsolatedBlock, SeesAtOnceThatItsNeighbourIsGone) {
  below_ = {};
  EXPECT_THROW(loop_->carry_out({.end_turn = 1}), LinkError);
}

/// Block 2 of three, whose neighbours have sent all that they ever do: the
/// activations of three batches, and the gradients of the first two between.
std::string done_between_neighbours(const std::string& priority) {
  const Experiment experiment = small_experiment(
      "blocks = ['0', '1', '2-']\nschedule = 'free'\nin_flight = 3\n"
      "engine = 'threads'\ntimeout = 5\nmodel = {hidden = [24, 20]}\n"
      "boundary = {policy = 'delayed_gradient', weights = 'mixed'}\n"
      "priority = '" +
      priority + "'\n");
  std::vector<Ends> ends = memory_ends(experiment);
  const Link below = std::move(ends[0].above);
  const Link above = std::move(ends[2].below);
  const std::unique_ptr<Seat> seat =
      make_seat(experiment, 2, std::move(ends[1]), nullptr, {});
  const auto send_up = [&](std::int64_t batch) {
    Message message{.batch = batch};
    pack_up({at::ones({32, 24})}, {{}, at::zeros({32}, at::kLong)}, {}, nullptr,
            message);
    below.sender->send(std::move(message));
  };
  const auto send_down = [&](std::int64_t batch) {
    Message message{.kind = MessageKind::gradient, .batch = batch};
    DownPayload down;
    down.gradients.push_back({at::ones({32, 20})});
    pack_down(down, nullptr, message);
    above.sender->send(std::move(message));
  };
  send_up(0);
  send_up(1);
  send_down(0);
  send_up(2);
  send_down(1);
  send_down(2);
  return FreeLoop(experiment.plans, *seat)
      .carry_out({.end_turn = 3, .drain = true});
}

TEST(FreeLoop, TakesTheMessageThatCameFirstWhereItIsToldTo) {
  EXPECT_EQ(done_between_neighbours("arrival"), "F0 F1 B0 U0 F2 B1 U1 B2 U2");
  EXPECT_EQ(done_between_neighbours("backward"), "F0 B0 U0 F1 B1 U1 F2 B2 U2");
}

// One that is killed between both has told what the centre may have seen of it,
// be it a push or its coming to rest.
TEST(FreeLoop, TellsOfAnExchangeBeforeItsCentreHearsOfIt) {
  const Experiment experiment = small_experiment(
      "blocks = 1\nschedule = 'free'\nengine = 'threads'\n"
      "model = {hidden = [24]}\n"
      "replicas = {count = 2, policy = 'server'}\n");
  std::vector<Ends> ends = memory_ends(experiment);
  std::vector<std::unique_ptr<Seat>> seats;
  for (int seat : {1, 2})
    seats.push_back(make_seat(experiment, seat, std::move(by_block(ends, seat)),
                              nullptr, {}));
  const Grant grant{.end_turn = 2, .checkpoint = true};
  for (const auto& seat : seats) seat->start(grant);
  std::string told;
  std::vector<std::string> seen;
  Heartbeat heartbeat;
  const ActionWrapper around = [&](const Action& action, const auto& execute) {
    if (action.op == Op::exchange) {
      seen.push_back(to_text(action));
      EXPECT_TRUE(told.ends_with(seen.back())) << seen.back() << "; " << told;
    }
    execute();
  };
  std::jthread other(
      [&] { FreeLoop(experiment.plans, *seats[0]).carry_out(grant); });
  FreeLoop(experiment.plans, *seats[1], SeatRunner(heartbeat, around),
           [&](const std::string& actions) { told += " " + actions; })
      .carry_out(grant);
  other.join();
  // The centre, beside replica 1, waits for the end of the other.
  while (!seats.empty()) seats.pop_back();
  EXPECT_THAT(seen, Contains("X2.1"));
  EXPECT_GT(seen.size(), 1U);
}

}  // namespace sluice::free_loop_test
