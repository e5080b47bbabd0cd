// Which thread runs the loop, and that no wait follows what has happened.
#include "transport/links/io_thread.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <gtest/gtest.h>

namespace sluice::io_thread_test {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using Clock = IoThread::Clock;

// Something that happens in the loop.
class Event {
 public:
  explicit Event(IoThread& io) : io_(io), timer_(io.context()) {}

  void happen_after(Clock::duration time) {
    timer_.expires_after(time);
    // A caller that polls happened() may destroy this at once.
    timer_.async_wait([this, &io = io_](boost::system::error_code error) {
      if (error) return;
      thread_ = std::this_thread::get_id();
      happened_ = true;
      io.changed();
    });
  }
  bool happened() const { return happened_; }
  std::thread::id thread() const { return thread_; }

 private:
  IoThread& io_;
  asio::steady_timer timer_;
  std::thread::id thread_;
  std::atomic<bool> happened_ = false;
};

bool await(IoThread::LoopGuard& visit, const Event& event,
           Clock::duration at_most = 60s) {
  Spin spin(20us);
  const Clock::time_point until = Clock::now() + at_most;
  return visit.await(
      spin, [&] { return event.happened(); },
      [&] { return until - Clock::now(); });
}

void wait_without_visiting(const Event& event) {
  while (!event.happened()) std::this_thread::sleep_for(1ms);
}

TEST(IoThread, RunsTheLoopWhileNobodyVisitsIt) {
  IoThread io;
  Event event(io);
  event.happen_after(1ms);
  wait_without_visiting(event);
  EXPECT_NE(event.thread(), std::this_thread::get_id());
}

thread_local int prepared = 0;

/// As a thread that computes on a GPU makes it its current device.
TEST(IoThread, RunsTheLoopInsideWhatItIsGiven) {
  std::promise<int> seen;
  IoThread io([](const std::function<void()>& loop) {
    prepared = 7;
    loop();
  });
  io.stay();
  asio::post(io.context(), [&] { seen.set_value(prepared); });
  EXPECT_EQ(seen.get_future().get(), 7);
  EXPECT_EQ(prepared, 0);  // of this thread
}

// Inside, however long the thread takes to leave.
void enter(IoThread::LoopGuard& visit, IoThread& io) {
  const Event never(io);
  while (!visit.enter()) await(visit, never, 1ms);
}

TEST(LoopGuard, RunsTheLoopWhileItWaits) {
  IoThread io;
  IoThread::LoopGuard visit(io);
  enter(visit, io);
  Event event(io);
  event.happen_after(20ms);
  EXPECT_TRUE(await(visit, event));
  EXPECT_EQ(event.thread(), std::this_thread::get_id());
}

TEST(LoopGuard, LeavesTheLoopToTheThread) {
  IoThread io;
  Event first(io);
  Event second(io);
  first.happen_after(20ms);
  second.happen_after(40ms);
  {
    IoThread::LoopGuard visit(io);
    EXPECT_TRUE(await(visit, first));
  }
  wait_without_visiting(second);
  EXPECT_NE(second.thread(), std::this_thread::get_id());
}

TEST(LoopGuard, EndsWhenItsTimeIsOver) {
  IoThread io;
  const Event never(io);
  IoThread::LoopGuard visit(io);
  const auto start = Clock::now();
  EXPECT_FALSE(await(visit, never, 20ms));
  EXPECT_GE(Clock::now() - start, 20ms);
}

TEST(LoopGuard, LooksOnceMoreWhenItsTimeIsOver) {
  IoThread io;
  IoThread::LoopGuard visit(io);
  enter(visit, io);
  Event event(io);
  event.happen_after(0ms);
  EXPECT_TRUE(await(visit, event, 0ms));
}

TEST(LoopGuard, DoesWhatIsReadyWithoutWaiting) {
  IoThread io;
  IoThread::LoopGuard visit(io);
  enter(visit, io);
  Event event(io);
  Event never(io);
  never.happen_after(60s);
  asio::post(io.context(), [&] { event.happen_after(0ms); });
  const auto start = Clock::now();
  while (!event.happened()) visit.advance();
  EXPECT_LT(Clock::now() - start, 50s);
  EXPECT_EQ(event.thread(), std::this_thread::get_id());
}

TEST(LoopGuard, IsOneThreadsAtATime) {
  IoThread io;
  IoThread::LoopGuard mine(io);
  enter(mine, io);
  std::thread([&] {
    IoThread::LoopGuard visit(io);
    EXPECT_FALSE(visit.enter());
  }).join();
}

// Visits that don't run it: the thread does what there is to do nevertheless.
TEST(LoopGuard, ThatOnlyLooksInKeepsNobodyFromTheLoop) {
  IoThread io;
  Event event(io);
  event.happen_after(1ms);
  const auto start = Clock::now();
  while (!event.happened() && Clock::now() - start < 20s) {
    IoThread::LoopGuard visit(io);
    visit.enter();
  }
  EXPECT_TRUE(event.happened());
}

TEST(LoopGuard, WhoWaitsOutsideHearsOfWhatHappensInside) {
  IoThread io;
  Event last(io);
  std::promise<void> inside;
  std::thread other([&] {
    IoThread::LoopGuard visit(io);
    enter(visit, io);
    inside.set_value();
    EXPECT_TRUE(await(visit, last));
  });
  inside.get_future().wait();
  {
    Event event(io);
    IoThread::LoopGuard visit(io);
    asio::post(io.context(), [&] { event.happen_after(20ms); });
    EXPECT_TRUE(await(visit, event, 20s));
    EXPECT_FALSE(visit.enter());
  }
  asio::post(io.context(), [&] { last.happen_after(0ms); });
  other.join();
}

TEST(IoThread, WhichStaysLetsNobodyIn) {
  IoThread io;
  io.stay();
  Event event(io);
  event.happen_after(20ms);
  IoThread::LoopGuard visit(io);
  EXPECT_TRUE(await(visit, event));
  EXPECT_NE(event.thread(), std::this_thread::get_id());
  EXPECT_FALSE(visit.enter());
}

TEST(IoThread, WhichStaysSendsAwayWhoIsInside) {
  IoThread io;
  Event event(io);
  std::promise<std::thread::id> waiting;
  std::thread other([&] {
    IoThread::LoopGuard visit(io);
    Event inside(io);
    inside.happen_after(1ms);
    EXPECT_TRUE(await(visit, inside));
    waiting.set_value(std::this_thread::get_id());
    EXPECT_TRUE(await(visit, event));
  });
  const std::thread::id visitor = waiting.get_future().get();
  io.stay();
  event.happen_after(20ms);
  other.join();
  EXPECT_NE(event.thread(), visitor);
}

// Each thread waits now and then for what the loop does for it, with and
// without a visit, at times that no test could think of.
TEST(VisitProperty, NobodyWaitsForWhatHasHappened) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  IoThread io;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i) {
    threads.emplace_back([&io, seed, i] {
      std::mt19937 random(seed + i);
      const auto some = [&random](int most) {
        return std::chrono::microseconds(
            std::uniform_int_distribution(0, most)(random));
      };
      for (int turn = 0; turn < 300; ++turn) {
        const auto event = std::make_shared<Event>(io);
        asio::post(io.context(),
                   [event, time = some(300)] { event->happen_after(time); });
        if (turn % 5 == 0) {
          wait_without_visiting(*event);
        } else {
          IoThread::LoopGuard visit(io);
          EXPECT_TRUE(await(visit, *event));
        }
        std::this_thread::sleep_for(some(300));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sluice::io_thread_test
