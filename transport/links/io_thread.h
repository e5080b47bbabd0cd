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
/// it. Whoever waits for a link runs the loop itself meanwhile, which saves two
/// threads waking each other for every message; the thread runs it while nobody
/// does. So one thread at a time is in the loop, not always the same one. What
/// runs there never blocks and is no learner code; elsewhere it is said to be
/// "on the I/O thread", whoever runs it.
///
/// It must outlive all links and rendezvous made on it; its destructor waits
/// until they have written what was sent before their ends were destroyed, but
/// for no more than 5 s in which nothing moves (or the link's deadline, if that
/// is less).
class IoThread {
 public:
  using Clock = std::chrono::steady_clock;

  IoThread();
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  class LoopGuard;

  boost::asio::io_context& context() { return context_; }

  /// To be said in the loop: what somebody awaits may have come.
  void changed() { news_ = true; }
  /// From now on the thread alone runs the loop, so that what comes is noticed
  /// at once while nobody visits but waits for a bell, say.
  void stay();

  /// Tells all peers, with the next heartbeat, that this process's learner
  /// moves: their deadlines start anew. The ends of links do so by themselves;
  /// who computes for long may do it too. Safe on any thread.
  void note_progress() { ++progress_; }
  std::uint64_t progress() const { return progress_; }

 private:
  using Lock = std::unique_lock<std::mutex>;

  void keep_loop();
  // All with the lock.
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
  bool occupied_ = false;   // somebody is in the loop
  bool by_thread_ = false;  // and it is the thread
  bool stays_ = false;
  int outside_ = 0;  // who awaits something, but is not in the loop
  Clock::time_point rests_until_ = {};
  // When the alarm goes off, if it is set.
  std::optional<Clock::time_point> alarm_at_;
  std::atomic<bool> news_ = false;
  std::thread thread_;
};

/// A thread's visit to the loop: once inside it stays there, and nobody else
/// is, until it is destroyed. Then the thread takes over after a while. On any
/// thread but the one that is in the loop.
class IoThread::LoopGuard {
 public:
  explicit LoopGuard(IoThread& io) : io_(io) {}
  ~LoopGuard();
  LoopGuard(const LoopGuard&) = delete;
  LoopGuard& operator=(const LoopGuard&) = delete;

  /// Whether it is inside: not while somebody else is.
  bool enter();
  /// Waits until `done()`, and runs the loop if nobody else does; false when
  /// no time is left() first. Both are asked again whenever something happened,
  /// and every kAwakeLook. `spin` is the caller's, for waits of this kind.
  bool await(Spin& spin, const std::function<bool()>& done,
             const std::function<Clock::duration()>& left);
  /// Does some of what is ready, and has the thread see to the rest soon.
  /// Inside only.
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
