// Errors name the worker that hangs when several are silent, not those that
// wait for it.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/awake_clock.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/engines/control.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/progress_board.h"

namespace sluice::supervision_test {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr Deadline kLong = std::chrono::hours(1);
constexpr Deadline kNone = milliseconds(0);

Progress said(std::int64_t moves, int waits_for) {
  Heartbeat heartbeat;
  for (std::int64_t i = 1; i < moves; ++i) heartbeat.moves();
  heartbeat.begins({Op::backward, 7, 9});
  if (waits_for >= 0) heartbeat.waits_for(waits_for);
  return heartbeat.progress();
}

/// The board's time, which passes when the test says so, not while a busy
/// machine does something else.
class Time {
 public:
  void passes(milliseconds time) { now_ += time; }
  AwakeClock::Source source() const {
    return [this] { return now_; };
  }

 private:
  AwakeClock::Clock::time_point now_{std::chrono::hours(1)};
};

TEST(ProgressBoard, NamesNobodyBeforeTheDeadline) {
  const Time time;
  const ProgressBoard board(2, AwakeClock::kMost, time.source());
  EXPECT_FALSE(board.stalled(kLong));
}

TEST(ProgressBoard, NamesASilentWorkerFirst) {
  Time time;
  ProgressBoard board(2, AwakeClock::kMost, time.source());
  time.passes(milliseconds(2));
  board.heard(1);
  board.progress(1, said(1, -1));
  const auto stalled = board.stalled(milliseconds(1));
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->block, 2);
  EXPECT_THAT(stalled->why, HasSubstr("was silent"));
}

TEST(ProgressBoard, NamesOneThatWorksAndGetsNowhereNotOneThatWaitsForIt) {
  Time time;
  ProgressBoard board(2, AwakeClock::kMost, time.source());
  board.progress(1, said(5, 2));
  board.progress(2, said(5, -1));
  time.passes(milliseconds(2));
  board.heard(1);
  board.progress(1, said(5, 2));
  board.heard(2);
  board.progress(2, said(5, -1));
  const auto stalled = board.stalled(milliseconds(1));
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->block, 2);
  EXPECT_THAT(stalled->why, HasSubstr("made no progress"));
  EXPECT_THAT(stalled->why, HasSubstr("in turn 9 (backward)"));
}

TEST(ProgressBoard, ProgressStartsTheDeadlineAnew) {
  Time time;
  ProgressBoard board(1, AwakeClock::kMost, time.source());
  board.progress(1, said(5, -1));
  time.passes(milliseconds(2));
  board.heard(1);
  board.progress(1, said(6, -1));
  EXPECT_FALSE(board.stalled(kLong));
  EXPECT_TRUE(board.stalled(kNone));
}

TEST(ProgressBoard, NamesNobodyWhoHasEnded) {
  Time time;
  ProgressBoard board(1, AwakeClock::kMost, time.source());
  EXPECT_TRUE(board.stalled(kNone));
  board.ended(1);
  EXPECT_FALSE(board.stalled(kNone));
}

// A user's program may do something else meanwhile, and look at no heartbeat.
TEST(ProgressBoard, TimeWithoutALookDoesNotCount) {
  Time time;
  ProgressBoard board(1, milliseconds(1), time.source());
  board.progress(1, said(5, -1));
  time.passes(milliseconds(30));
  EXPECT_FALSE(board.stalled(milliseconds(25)));
}

TEST(ProgressBoard, MessagesWithoutProgressDoNotStartTheDeadlineAnew) {
  Time time;
  ProgressBoard board(1, AwakeClock::kMost, time.source());
  board.progress(1, said(5, -1));
  time.passes(milliseconds(30));
  board.heard(1);
  board.progress(1, said(5, -1));
  EXPECT_TRUE(board.stalled(milliseconds(25)));
}

TEST(ProgressBoard, AnyOtherMessageIsProgress) {
  Time time;
  ProgressBoard board(1, AwakeClock::kMost, time.source());
  board.progress(1, said(5, -1));
  time.passes(milliseconds(30));
  board.heard(1, true);
  EXPECT_FALSE(board.stalled(milliseconds(25)));
}

TEST(ProgressBoard, NamesAllWhenEachWaitsForAnother) {
  Time time;
  ProgressBoard board(2, AwakeClock::kMost, time.source());
  board.progress(1, said(5, 2));
  board.progress(2, said(5, 1));
  time.passes(milliseconds(30));
  board.heard(1);
  board.heard(2);
  const auto stalled = board.stalled(milliseconds(25));
  ASSERT_TRUE(stalled);
  EXPECT_EQ(stalled->block, 0);
  EXPECT_THAT(stalled->why,
              HasSubstr("all wait: block 1 for block 2, block 2 for block 1"));
}

TEST(ProgressBoard, SaysThatAllWaitWhenNoneHasMovedForAWhile) {
  Time time;
  ProgressBoard board(3, AwakeClock::kMost, time.source());
  board.progress(1, said(5, 2));
  board.progress(2, said(5, 1));
  board.ended(3);
  time.passes(milliseconds(20));
  board.progress(1, said(6, 2));
  time.passes(milliseconds(20));
  board.progress(1, said(6, 2));
  EXPECT_FALSE(board.all_wait(milliseconds(25))) << "one has moved";
  time.passes(milliseconds(10));
  EXPECT_TRUE(board.all_wait(milliseconds(25)));
  board.progress(2, said(5, kNobody));
  EXPECT_FALSE(board.all_wait(milliseconds(25))) << "one works";
}

TEST(ProgressBoard, NamesNobodyForWaitingForOneThatHasJustEnded) {
  Time time;
  ProgressBoard board(2, AwakeClock::kMost, time.source());
  board.progress(1, said(5, 2));
  time.passes(milliseconds(30));
  board.heard(1);
  board.progress(2, said(6, -1));
  board.ended(2);
  EXPECT_FALSE(board.stalled(milliseconds(25)));
}

// A lost one was silent for as long as the others waited for it.
TEST(ProgressBoard, NamesNobodyForHavingWaitedForOneThatIsLost) {
  Time time;
  ProgressBoard board(3, AwakeClock::kMost, time.source());
  board.progress(1, said(5, 3));
  board.progress(2, said(5, 1));
  time.passes(milliseconds(30));
  board.heard(1);
  board.heard(2);
  board.ended(3);
  EXPECT_FALSE(board.stalled(milliseconds(25)));
  time.passes(milliseconds(30));
  board.heard(1);
  board.heard(2);
  EXPECT_TRUE(board.stalled(milliseconds(25))) << "they wait still";
}

TEST(ProgressBoard, NamesNobodyForWaitingWhileOneWorks) {
  Time time;
  ProgressBoard board(2, AwakeClock::kMost, time.source());
  board.progress(1, said(5, 2));
  board.progress(2, said(5, -1));
  time.passes(milliseconds(30));
  board.heard(1);
  board.heard(2);
  board.progress(2, said(6, -1));
  EXPECT_FALSE(board.stalled(milliseconds(25)));
}

TEST(ProgressBoard, KnowsWhenAllHaveBeenHeard) {
  Time time;
  ProgressBoard board(2, AwakeClock::kMost, time.source());
  board.heard(1);
  EXPECT_FALSE(board.all_heard());
  board.heard(2);
  EXPECT_TRUE(board.all_heard());
}

TEST(Heartbeat, ShowsAWaitAtALinkAndHowLongItTook) {
  Heartbeat heartbeat;
  auto [worker, other] = memory_link(1, 1, kLong, "link");
  const Link link = with_waits_shown(std::move(worker), heartbeat, 2);
  std::thread neighbour([&sender = *other.sender, &heartbeat] {
    while (heartbeat.progress().waits_for != 2) std::this_thread::yield();
    sender.send({});
  });
  EXPECT_TRUE(link.receiver->receive());
  neighbour.join();
  EXPECT_EQ(heartbeat.progress().waits_for, -1);
  EXPECT_GT(heartbeat.waited().count(), 0);
}

TEST(Heartbeat, CallsBackWheneverTheWorkerMoves) {
  int moves = 0;
  Heartbeat heartbeat([&moves] { ++moves; });
  heartbeat.waits_for(2);
  EXPECT_EQ(moves, 0);
  heartbeat.begins({Op::forward, 3, 3});
  heartbeat.moves();
  EXPECT_EQ(moves, 2);
}

TEST(Heartbeat, TellsThePulseWhileTheWorkerDoesNothing) {
  Heartbeat heartbeat;
  auto [worker, launcher] = memory_link(4, 4, kLong, "link");
  const auto sender =
      with_heartbeat(std::move(worker.sender), heartbeat, milliseconds(1));
  heartbeat.begins({Op::forward, 3, 3});
  std::int64_t turn = -1;
  while (turn != 3) {
    const auto message = launcher.receiver->receive();
    ASSERT_EQ(message->kind, MessageKind::progress);
    turn = said_in<Progress>(*message).turn;
  }
}

TEST(Heartbeat, SaysToPeersOfAWorkerThatWaitsThatItLives) {
  std::atomic<int> said = 0;
  Heartbeat heartbeat([&said] { ++said; });
  auto [worker, launcher] = memory_link(4, 4, kLong, "link");
  const auto sender =
      with_heartbeat(std::move(worker.sender), heartbeat, milliseconds(1));
  heartbeat.begins({Op::forward, 3, 3});
  for (int pulse = 0; pulse < 20; ++pulse)
    ASSERT_TRUE(launcher.receiver->receive());
  EXPECT_EQ(said, 1) << "one that computes for so long may hang";
  heartbeat.waits_for(2);
  for (int pulse = 0; pulse < 1000 && said < 3; ++pulse)
    ASSERT_TRUE(launcher.receiver->receive());
  EXPECT_GE(said, 3);
  launcher.receiver.reset();
}

TEST(Heartbeat, EndsWhenTheLinkIsClosed) {
  Heartbeat heartbeat;
  auto [worker, launcher] = memory_link(4, 4, kLong, "link");
  const auto sender =
      with_heartbeat(std::move(worker.sender), heartbeat, milliseconds(1));
  sender->close();
  while (launcher.receiver->receive()) continue;
  EXPECT_FALSE(launcher.receiver->receive().has_value());
}

}  // namespace sluice::supervision_test
