#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/channel.h"
#include "lib/boundaries/witness.h"
#include "lib/engines/coordinator.h"
#include "lib/engines/progress_board.h"
#include "lib/metrics/record.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan.h"

namespace sluice {

// What workers and the coordinator say to each other over a control link, when
// they are not in one thread. The worker's side of it is `worker_loop.h`.

/// Messages that a control link holds: records and reached grants go up.
inline constexpr Capacity kControlCapacity = {.up = 64, .down = 4};

/// A control link may be silent for as long as a grant takes, so its waits are
/// not what finds a failure: a worker that ends closes its link, and one that
/// hangs is found by its neighbours, or on the ProgressBoard.
inline constexpr Deadline kControlDeadline = std::chrono::hours(24 * 365);

/// Of all links of worker processes that are on a ProgressBoard: how long
/// somebody waits there says nothing of whether the other hangs, which may wait
/// itself; the launcher finds out, and kills who does.
inline constexpr Deadline kSupervisedDeadline = kControlDeadline;

/// Of the kind `clock`: a question, or its answer.
Message clock_question();
Message clock_answer();

/// A record as a message: one tensor "json" of bytes.
Message control_message(MessageKind kind, const Record& record);
Record record_of(const Message& message);

/// What a block that runs free has done in a phase, as a record of the kind
/// "actions".
Record actions_record(int block, std::int64_t phase,
                      const std::string& actions);

Record to_record(const Grant& grant);
Grant grant_from(const Record& record);

/// What an exception says, on one line: LibTorch's without their stack.
std::string text_of(const std::exception& error);

/// What stopped a worker; the values are what workers say.
enum class Cause : std::uint8_t {
  own = 0,       ///< the worker itself
  link = 1,      ///< a link of it broke
  peer_gone = 2  ///< only that somebody else went
};
Cause cause_of(const std::exception& error);

/// Why a worker stopped. A failure of a lesser cause explains those of others.
struct Failure {
  int block = 0;
  Cause cause = Cause::own;
  std::string text = {};
};
/// As a record ("cause", "text"), and back.
Record to_record(const Failure& failure);
Failure failure_from(const Record& record, int block);
/// Throws it as UserError, or LinkError.
[[noreturn]] void throw_failure(const Failure& failure);

/// The coordinator's side: serves one control link per block (index k-1), each
/// from a thread of its own, until every worker has carried out the last grant.
/// Grants are sent ahead so that no worker waits for one.
class ControlServer {
 public:
  /// `witness`, if any, is told what workers send for it; `board`, if any, is
  /// told of their progress. With a board they are processes, maybe of other
  /// hosts: then each is asked for its time before its first grant, and what
  /// follows is a record of kind "clock_offset" (lib/metrics/clock_offset.h).
  ControlServer(std::vector<Link> links, Coordinator& coordinator,
                std::shared_ptr<Witness> witness = nullptr,
                ProgressBoard* board = nullptr);

  /// Returns when all is done. When workers fail, waits for all links to end;
  /// on_failure is called once, at the first failure, from a serving thread: it
  /// should make the other workers end. Then throws the failure that caused the
  /// others, naming its block.
  void serve(const std::function<void()>& on_failure);
  /// The block that serve() named when it threw; 0: none.
  int failed_block() const { return failed_block_; }

 private:
  void serve_block(int block);
  void converse(int block, Link& link);
  void fail(Failure failure);

  std::vector<Link> links_;
  Coordinator& coordinator_;
  std::shared_ptr<Witness> witness_;
  ProgressBoard* board_;
  int failed_block_ = 0;
  std::function<void()> on_failure_;
  std::mutex mutex_;  // guards failures_
  std::vector<Failure> failures_;
};

}  // namespace sluice
