#include "lib/engines/seat_order.h"

#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/orders/rows.h"

namespace sluice::seat_order_test {

Plans plans_of_two_executors() {
  return {find_row(schedule_rows(), "interleaved", "order")
              .make({{}, {}, {}}, {.micro_batches = {.count = 4, .samples = 8},
                                   .executors = 2})};
}

/// "1F0 1F1 3F0 ...".
std::string text_of(const std::vector<SeatAction>& actions) {
  std::string text;
  for (const SeatAction& each : actions)
    text += std::to_string(each.seat) + to_text(each.action) + " ";
  return text;
}

TEST(SeatOrder, ThreadsOfAnExecutorDoItsActionsInItsOrder) {
  const Plans plans = plans_of_two_executors();
  const std::vector<Grant> grants = {
      {.end_turn = 2},
      {.first_turn = 2, .end_turn = 3, .evaluation_batches = 3}};
  SeatOrder order(plans, 0);
  std::mutex mutex;
  std::vector<SeatAction> done;
  const auto work = [&](int block) {
    for (const Grant& grant : grants) {
      order.begin(block, grant);
      for (const Action& action : actions_of(plans, block, grant))
        order.execute(block, [&] {
          const std::lock_guard lock(mutex);
          done.push_back({block, action});
        });
    }
  };
  {
    const std::jthread one(work, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::jthread other(work, 1);
  }
  std::vector<SeatAction> expected;
  for (const Grant& grant : grants)
    for (const SeatAction& each : executor_actions(plans[0], 0, grant))
      expected.push_back(each);
  EXPECT_EQ(text_of(done), text_of(expected));
}

TEST(SeatOrder, ABlockWhoseNeighbourFailedDoesNotWaitForIt) {
  const Plans plans = plans_of_two_executors();
  SeatOrder order(plans, 0);
  std::string said;
  std::jthread waits([&] {
    order.begin(3, {.end_turn = 1});
    try {
      order.execute(3, [] { FAIL() << "it is not its turn"; });
    } catch (const PeerGoneError& error) {
      said = error.what();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  order.fail();
  waits.join();
  EXPECT_NE(said.find("block 3"), std::string::npos);
}

}  // namespace sluice::seat_order_test
