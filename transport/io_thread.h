#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

namespace sluice {

/// The one thread of a process that owns its sockets. It never blocks and runs
/// no learner code. It must outlive all links and rendezvous made on it; its
/// destructor waits until they have written what was sent before their ends
/// were destroyed, but for no more than 5 s in which nothing moves (or the
/// link's deadline, if that is less).
class IoThread {
 public:
  IoThread();
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  boost::asio::io_context& context() { return context_; }

  /// Tells all peers, with the next heartbeat, that this process's learner
  /// moves: their deadlines start anew. The ends of links do so by themselves;
  /// who computes for long may do it too. Safe on any thread.
  void note_progress() { ++progress_; }
  std::uint64_t progress() const { return progress_; }

 private:
  std::atomic<std::uint64_t> progress_ = 0;
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type>
      work_;
  std::thread thread_;
};

}  // namespace sluice
