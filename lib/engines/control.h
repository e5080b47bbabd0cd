#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/blocks/source.h"
#include "lib/engines/control_codec.h"
#include "lib/metrics/record.h"
#include "lib/schedules/plan/plan.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/error_text.h"

namespace sluice {

// Messages of workers and their crew to each other over a control link, when
// they are not in one thread: `linked_crew.h` at one end, `worker_loop.h` at
// the other.

/// A control link may be silent for as long as a grant takes, so its waits are
/// not what finds a failure: a worker that ends closes its link, and one that
/// hangs is found by its neighbours, or on the ProgressBoard.
inline constexpr Deadline kControlDeadline = std::chrono::hours(24 * 365);

/// The deadline of every link between worker processes that a ProgressBoard
/// supervises. A long wait doesn't prove that the neighbour hangs, since it may
/// be waiting itself; the launcher finds the worker that does, and kills it.
inline constexpr Deadline kSupervisedDeadline = kControlDeadline;

/// A record on its way to the metrics, as JSON; and back.
Message record_message(const Record& record);
Record record_of(const Message& message);

/// A message with such bytes as its first tensor, and those bytes. Throws
/// LinkError where there is none of that name.
Message bytes_message(MessageKind kind, const char* name,
                      std::string_view bytes);
std::string_view bytes_of(const Message& message, const char* name);
[[noreturn]] void throw_unreadable(const Message& message);

inline constexpr const char* kSaid = "said";

/// Message of a struct of control_codec.h, and back. Throws LinkError when the
/// message says something else.
template <class T>
Message control_message(MessageKind kind, const T& said) {
  return bytes_message(kind, kSaid, control::encoded(said));
}
template <class T>
T said_in(const Message& message) {
  auto said = control::decoded<T>(bytes_of(message, kSaid));
  if (!said) throw_unreadable(message);
  return *std::move(said);
}

/// Batches of a turn that a seat takes, of those of all replicas: block 1 alone
/// takes any.
std::vector<Batch> batches_of_seat(const SeatNames& names, int seat,
                                   std::span<const Batch> batches);
/// A grant on its way to a worker, with the batches of its turn, if any.
Message grant_message(const Grant& grant, std::span<const Batch> batches = {});
/// The batches in a message of control.
std::vector<Batch> batches_of(const Message& message);

/// "block 2: " before the text of an exception, which may begin so itself.
std::string text_of(const std::string& who, const std::string& text);

/// What stopped a worker, by the exception that ended it.
Cause cause_of(const std::exception& error);
/// Throws the failure as UserError, or LinkError.
[[noreturn]] void throw_failure(const Failure& failure,
                                const SeatNames& names = {});

}  // namespace sluice
