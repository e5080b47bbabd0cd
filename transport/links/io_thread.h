#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "transport/links/alarm.h"
#include "transport/links/spin.h"

namespace sluice {

/// The event loop of a process that owns its sockets, and the thread that keeps
/// it. A thread that waits for a link runs the loop itself meanwhile
/// (LoopGuard), which saves two threads waking each other for every message;
/// else the I/O thread runs it. So one thread at a time runs the loop, not
/// always the same one. Handlers never block and are no learner code; elsewhere
/// they are said to be "on the I/O thread", whichever thread runs them.
///
/// It must outlive all links and rendezvous made on it; its destructor waits
/// until they have written what was sent before their ends were destroyed, but
/// for no more than 5 s in which nothing moves (or the link's deadline, if that
/// is less).
class IoThread {
 public:
  using Clock = std::chrono::steady_clock;
  /// Calls `work` once, and keeps the thread prepared for it meanwhile.
  using LoopWrapper = std::function<void(const std::function<void()>& work)>;

  IoThread() : IoThread(nullptr) {}
  /// The I/O thread keeps the loop inside `around`, if there is one; other
  /// threads that run the loop don't. It must not throw.
  explicit IoThread(LoopWrapper around);
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  class LoopGuard;

  boost::asio::io_context& context() { return context_; }

  /// To be called in the loop: makes threads that wait outside it check again
  /// what they wait for.
  void changed() { news_ = true; }
  /// Keeps the loop, from now on, in the I/O thread alone, so that arriving
  /// messages are handled at once while the learner waits elsewhere, for a bell
  /// for instance.
  void stay();

  /// Tells all peers, with the next heartbeat, that this process's learner
  /// moves: their deadlines start anew. The ends of links call it by
  /// themselves; code that computes for long may call it too. Safe on any
  /// thread.
  void note_progress() { ++progress_; }
  std::uint64_t progress() const { return progress_; }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void keep_loop();
  // The functions below are called with the lock held.
  void run_until_visited(Lock& lock);
  void wait_outside(Lock& lock, Clock::time_point until);
  void tell();
  void rest_until(Clock::time_point end);
  bool rests();

  std::atomic<std::uint64_t> progress_ = 0;
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type>
      work_;
  Alarm alarm_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex.
  bool occupied_ = false;   // a thread runs the loop
  bool by_thread_ = false;  // and it is the I/O thread
  bool stays_ = false;
  int outside_ = 0;  // threads that wait while another runs the loop
  Clock::time_point rests_until_ = {};
  // Time at which the alarm goes off, if it is set.
  std::optional<Clock::time_point> alarm_at_;
  std::atomic<bool> news_ = false;
  std::thread thread_;
};

/// Lets a thread run the loop: once enter() or await() has taken the loop, no
/// other thread runs it until the guard is destroyed; then the I/O thread takes
/// it over after a while. Used on any thread but the one that runs the loop.
class IoThread::LoopGuard {
 public:
  explicit LoopGuard(IoThread& io) : io_(io) {}
  ~LoopGuard();
  LoopGuard(const LoopGuard&) = delete;
  LoopGuard& operator=(const LoopGuard&) = delete;

  /// Takes the loop, unless another thread runs it; returns whether this guard
  /// has it.
  bool enter();
  /// Waits until done() is true, running the loop if no other thread does;
  /// returns false when left() runs out first. Both functions are called after
  /// every event, and at least every kAwakeLook. `spin` belongs to the caller,
  /// one for each kind of wait.
  bool await(Spin& spin, const std::function<bool()>& done,
             const std::function<Clock::duration()>& left);
  /// Runs some of the handlers that are ready, and has the I/O thread run the
  /// rest soon. Only while this guard has the loop.
  void advance();

 private:
  bool may_enter() const;
  void run(Spin& spin, Clock::time_point until);
  void leave();

  IoThread& io_;
  bool inside_ = false;
  bool was_outside_ = false;
  bool has_run_ = false;
  bool hurries_ = false;
};

}  // namespace sluice
