#pragma once

#include <chrono>
#include <exception>
#include <string>

#include "lib/base/messages/channel.h"

namespace sluice {

/// Whether the launcher of a worker that has failed is gone: its link ended
/// without a close. A launcher that lives closes it when a worker has failed.
/// Takes what was sent before, and waits `patience` at most.
bool is_cut_off(Receiver& control, std::chrono::milliseconds patience);

/// Reason why a rank ends, for its user. A launcher that goes takes the ranks
/// of its host with it, and which of them a rank misses first is chance: so a
/// launcher that is gone is the reason, whatever the error says.
std::string reason_of_end(
    const std::exception& error, Receiver& control,
    std::chrono::milliseconds patience = std::chrono::seconds(2));

}  // namespace sluice
