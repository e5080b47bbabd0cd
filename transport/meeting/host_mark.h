#pragma once

#include <string>

namespace sluice {

/// Mark of the processes that can share memory with this one: those of the same
/// mark run on one kernel since its last start, see the same files, and belong
/// to one user. `apart` sets processes of one host apart, where those that are
/// given different texts shall not share memory. "", a mark of none, where the
/// kernel doesn't say this much (no /proc). Throws UserError for a text of more
/// than 64 bytes.
std::string host_mark(const std::string& apart = "");

}  // namespace sluice
