#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <thread>

#include "experiments/config/experiment.h"
#include "experiments/runs/ranks/terms.h"
#include "lib/engines/newcomers.h"
#include "transport/wire/secret.h"

namespace sluice {

class IoThread;

/// Where a replica finds the free place of a run: a note (ranks/note.h), which
/// one of them takes away.
std::string door_of_run(const std::string& folder);

/// The launcher's side: while a place is offered, its workers meet those of
/// replica 1 at a rendezvous of their own. Nothing is made before the first
/// offer. Outlives the links that it has made.
class Door final : public Newcomers {
 public:
  /// `experiment` outlives it. folder, secret: of the run. host: address of
  /// this one at which those of other hosts call; empty: none of these may.
  Door(const Experiment& experiment, std::string folder, std::string host,
       const Secret& secret);
  ~Door() override;
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void ring(std::shared_ptr<Bell> bell) override { bell_ = std::move(bell); }
  void offer(int replica) override;
  void dismiss() override { is_dismissed_ = true; }
  std::optional<NewcomerNews> next() override;

 private:
  class OpenPlace;

  void serve(const std::stop_token& over);
  NewcomerNews meet(int replica, const std::stop_token& over);
  void tell(NewcomerNews news);

  const Experiment& experiment_;
  const std::string folder_;
  const std::string host_;
  const Secret secret_;
  std::optional<Terms> terms_;  // of the run; made for the first place
  std::shared_ptr<Bell> bell_;
  std::atomic<bool> is_dismissed_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable_any offered_;
  int offer_ = 0;  // a replica; 0: none
  std::queue<NewcomerNews> news_;
  std::unique_ptr<IoThread> io_;  // of the links of all that have joined
  /// The last one: it goes when the next is offered, for until then workers
  /// make links there.
  std::unique_ptr<OpenPlace> place_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace sluice
