// A launcher that slept blames no worker for silence meanwhile. Issue 18,
// item 9.
#include <chrono>

#include <gtest/gtest.h>

#include "lib/engines/progress_board.h"

namespace sluice::suspension_board_test {

using namespace std::chrono_literals;

class SleepingLauncher : public testing::Test {
 protected:
  void let_pass(std::chrono::milliseconds time,
                std::chrono::milliseconds between_looks) {
    for (auto passed = 0ms; passed < time; passed += between_looks) {
      now_ += between_looks;
      board_.stalled(1h);
    }
  }

  ProgressBoard::Clock::time_point now_ = {};
  ProgressBoard board_{2, 2s, [this] { return now_; }};
};

TEST_F(SleepingLauncher, BlamesNobodyForWhatItSleptThrough) {
  board_.heard(1);
  now_ += 24h;
  EXPECT_FALSE(board_.stalled(10s));
  let_pass(7s, 1s);
  EXPECT_FALSE(board_.stalled(10s));
}

// The worker alone was stopped.
TEST_F(SleepingLauncher, BlamesWhoWasSilentWhileItWatched) {
  now_ += 24h;
  for (int i = 0; i < 11; ++i) {
    board_.heard(1, true);
    let_pass(1s, 1s);
  }
  board_.heard(1, true);
  const auto stalled = board_.stalled(10s);
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->block, 2);
  EXPECT_TRUE(stalled->is_silent);
}

}  // namespace sluice::suspension_board_test
