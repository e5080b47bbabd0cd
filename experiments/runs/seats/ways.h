#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "lib/metrics/records.h"
#include "transport/meeting/rendezvous.h"

// Transports of the links between processes of a run. A config names one for
// all; or `transport = "auto"` takes shared memory within a host, and TLS
// between hosts, as the blocks happen to lie.
namespace sluice {

/// Whether a launcher that listens there can be reached from its host only.
bool is_of_one_host(const std::string& launcher_address);

/// The options of launcher and workers, of the transport that the config names,
/// or of "auto". With that no message leaves its host but encrypted, whatever
/// the marks of hosts are. Throws UserError for a SLUICE_HOST_MARK that is too
/// long.
void choose_transports(const Experiment& experiment, bool one_host,
                       RendezvousOptions& options);

/// What "auto" has come to for each link of two seats, and why: known to the
/// launcher, which has the marks of the workers' hosts (Rendezvous::marks());
/// none: all are on one. Nothing where the config names a transport, or there
/// are no links.
std::optional<records::Ways> ways_of(const Experiment& experiment,
                                     const std::vector<std::string>& marks);

/// The transports in a line, for the console.
std::string ways_text(const records::Ways& ways);

}  // namespace sluice
