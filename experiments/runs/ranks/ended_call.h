#pragma once

#include <string>

#include "experiments/runs/ranks/rank.h"
#include "lib/base/messages/channel.h"
#include "transport/wire/secret.h"

// Calls by which a rank that has ended before it met the others lets them know
// why, where they are on several hosts: by TLS at Rank::master, with the run's
// secret. Nothing of its experiment is needed, which may be what it couldn't
// read.
namespace sluice {

/// Rank 0: listens, and refuses all that call for that reason, until all other
/// ranks have called or `patience` is over. Throws UserError when it can't
/// listen there.
void refuse_callers(const Rank& rank, const Secret& secret,
                    const std::string& reason, Deadline patience);

/// A rank above 0: calls rank 0, as soon as that listens, and says the reason,
/// of which rank 0 then tells all others (RendezvousOptions::judge). Gives up
/// after `patience`, or when the call fails: rank 0 has ended, too.
void call_with_reason(const Rank& rank, const Secret& secret,
                      const std::string& reason, Deadline patience);

}  // namespace sluice
