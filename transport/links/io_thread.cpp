#include "transport/links/io_thread.h"

#include <algorithm>
#include <utility>

#include <boost/asio/post.hpp>

#include "lib/base/awake_clock.h"

namespace sluice {
namespace {

// Time that the loop stays idle after a guard has left it, before the I/O
// thread takes it: a learner that sends or receives often enough does without
// that thread.
constexpr auto kRest = std::chrono::microseconds(200);
constexpr auto kShortRest = std::chrono::microseconds(50);

// Steps to begin a write, or to find that it can't be done at once.
constexpr int kSteps = 4;

// The lock, given back for a while.
class LockPause {
 public:
  explicit LockPause(std::unique_lock<std::mutex>& lock) : lock_(lock) {
    lock_.unlock();
  }
  LockPause(const LockPause&) = delete;
  LockPause& operator=(const LockPause&) = delete;
  ~LockPause() { lock_.lock(); }

 private:
  std::unique_lock<std::mutex>& lock_;
};

}  // namespace

IoThread::IoThread(LoopWrapper around)
    : context_(1),  // one thread at a time runs it
      work_(context_.get_executor()),
      thread_([this, around = std::move(around)] {
        if (around)
          around([this] { keep_loop(); });
        else
          keep_loop();
      }) {}

IoThread::~IoThread() {
  work_.reset();
  alarm_.set({});
  thread_.join();
}

void IoThread::keep_loop() {
  Lock lock(mutex_);
  while (!context_.stopped()) {
    if (!occupied_ && !rests()) run_until_visited(lock);
    if (context_.stopped()) break;
    {
      const LockPause unlocked(lock);
      alarm_.wait();
    }
    alarm_at_.reset();
  }
}

void IoThread::run_until_visited(Lock& lock) {
  occupied_ = by_thread_ = true;
  while (!context_.stopped() && (stays_ || outside_ == 0)) {
    {
      const LockPause unlocked(lock);
      context_.run_one();
    }
    tell();
  }
  occupied_ = by_thread_ = false;
  changed_.notify_all();
}

void IoThread::wait_outside(Lock& lock, Clock::time_point until) {
  ++outside_;
  // A posted handler makes the I/O thread return from the loop and leave it.
  if (by_thread_ && !stays_) boost::asio::post(context_, [] {});
  changed_.wait_until(lock, until);
  --outside_;
}

void IoThread::stay() {
  const Lock lock(mutex_);
  stays_ = true;
  // A posted handler makes the thread that runs the loop return from it.
  if (occupied_ && !by_thread_) boost::asio::post(context_, [] {});
  if (!occupied_) rest_until({});
}

// The event loop is idle: a waiting thread takes it over, or the I/O thread at
// `end`. The alarm is set only if it would go off too late, because setting it
// is expensive.
void IoThread::rest_until(Clock::time_point end) {
  if (outside_ > 0) changed_.notify_all();
  rests_until_ = stays_ ? Clock::time_point() : end;
  if (alarm_at_ && *alarm_at_ <= rests_until_) return;
  alarm_at_ = rests_until_;
  alarm_.set(rests_until_ - Clock::now());
}

// Whether it is too early for the I/O thread to run the loop; then sets the
// alarm again.
bool IoThread::rests() {
  if (rests_until_ <= Clock::now()) return false;
  rest_until(rests_until_);
  return true;
}

void IoThread::tell() {
  if (news_.exchange(false) && outside_ > 0) changed_.notify_all();
}

bool IoThread::LoopGuard::may_enter() const {
  return !io_.stays_ && (inside_ || !io_.occupied_);
}

bool IoThread::LoopGuard::enter() {
  if (inside_) return true;
  const Lock lock(io_.mutex_);
  if (may_enter()) io_.occupied_ = inside_ = true;
  return inside_;
}

bool IoThread::LoopGuard::await(Spin& spin, const std::function<bool()>& done,
                                const std::function<Clock::duration()>& left) {
  if (done()) return true;
  const Clock::time_point start = Clock::now();
  Lock lock(io_.mutex_);
  // Looks once more when the time is over: this process may have been stopped.
  bool looked = false;
  for (; !done(); io_.tell()) {
    const Clock::duration time = left();
    const bool is_over = time <= Clock::duration::zero();
    const Clock::time_point end =
        Clock::now() + std::min<Clock::duration>(time, kAwakeLook);
    if (is_over && (looked || !may_enter())) return false;
    looked = is_over;
    if (may_enter()) {
      io_.occupied_ = inside_ = true;
      const LockPause unlocked(lock);
      run(spin, end);
    } else {
      leave();
      io_.wait_outside(lock, end);
      was_outside_ = true;
    }
  }
  spin.adapt(Clock::now() - start);
  return true;
}

void IoThread::LoopGuard::advance() {
  hurries_ = has_run_ = true;
  for (int i = 0; i < kSteps && io_.context_.poll_one() > 0; ++i) {
  }
}

void IoThread::LoopGuard::run(Spin& spin, Clock::time_point until) {
  has_run_ = true;
  if (Clock::now() >= until) {
    io_.context_.poll();
    return;
  }
  const auto any = [this] { return io_.context_.poll_one() > 0; };
  if (!spin.until(any)) io_.context_.run_one_until(until);
}

IoThread::LoopGuard::~LoopGuard() {
  if (!inside_ && !was_outside_) return;
  const Lock lock(io_.mutex_);
  leave();
}

void IoThread::LoopGuard::leave() {
  if (inside_) io_.occupied_ = inside_ = false;
  if (io_.occupied_) return;
  const auto now = Clock::now();
  auto until = now + (hurries_ ? kShortRest : kRest);
  // A guard that has not run the loop must not make the I/O thread wait longer.
  if (!has_run_ && io_.rests_until_ > now)
    until = std::min(until, io_.rests_until_);
  io_.rest_until(until);
}

}  // namespace sluice
