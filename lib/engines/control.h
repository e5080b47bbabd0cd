#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "lib/base/channel.h"
#include "lib/blocks/source.h"
#include "lib/metrics/record.h"
#include "lib/schedules/plan.h"

namespace sluice {

// What workers and their crew say to each other over a control link, when they
// are not in one thread: `linked_crew.h` at one end, `worker_loop.h` at the
// other.

/// A control link may be silent for as long as a grant takes, so its waits are
/// not what finds a failure: a worker that ends closes its link, and one that
/// hangs is found by its neighbours, or on the ProgressBoard.
inline constexpr Deadline kControlDeadline = std::chrono::hours(24 * 365);

/// The deadline of every link between worker processes that a ProgressBoard
/// supervises. A long wait doesn't prove that the neighbour hangs, since it may
/// be waiting itself; the launcher finds the worker that does, and kills it.
inline constexpr Deadline kSupervisedDeadline = kControlDeadline;

/// Messages of the kind `clock`: a question, and the answer to it.
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

/// A grant on its way to a worker, with the batch of its turn, if any.
Message grant_message(const Grant& grant, const Batch* batch = nullptr);
/// The batch in such a message.
std::optional<Batch> batch_of(const Message& message);

/// What an exception says, on one line: LibTorch's without their stack.
std::string text_of(const std::exception& error);

/// What stopped a worker; the values are what workers say.
enum class Cause : std::uint8_t {
  own = 0,       ///< the worker itself
  link = 1,      ///< a link of it broke
  peer_gone = 2  ///< only that its peer ended
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

}  // namespace sluice
