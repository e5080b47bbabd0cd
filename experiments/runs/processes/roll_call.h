#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "experiments/config/experiment.h"
#include "experiments/runs/ranks/terms.h"
#include "transport/meeting/rendezvous.h"

namespace sluice {

/// How rank 0 compares what the other ranks were started with, as they join.
class RollCall {
 public:
  /// Reads the data files. The run begins at `first_turn`.
  RollCall(const Experiment& experiment, std::int64_t first_turn);

  /// Has the rendezvous ask and judge the ranks; it must not outlive this.
  void judge_in(RendezvousOptions& options);

  /// When all have joined: says which of them have another build, and records
  /// it in the run.json of the run in `folder`.
  void record_builds(const std::string& folder);

 private:
  std::string judge(int rank, const std::string& text);

  const Terms mine_;
  const bool equal_builds_;
  std::mutex mutex_;  // guards all below
  std::map<int, Terms> theirs_;
};

/// "rank 0 waits for rank 1 at 127.0.0.1:29500".
std::string awaited_text(const Rendezvous& rendezvous);

/// What refused connections there are to tell of, each time it is called.
class RefusalNotices {
 public:
  explicit RefusalNotices(const Rendezvous& rendezvous)
      : rendezvous_(rendezvous) {}
  /// The next notice; empty: none since the last time, or too many for one line
  /// each.
  std::string next();

 private:
  const Rendezvous& rendezvous_;
  std::size_t told_ = 0;
};

}  // namespace sluice
