#pragma once

#include <functional>
#include <string>

namespace sluice {

/// Writes into a run's folder that somebody may move while the run works there:
/// `write` is called again where the folder has left its path meanwhile, once a
/// link leads from there to where it is, which may take a moment. `write` must
/// bear a repetition, and make no folder above its own.
///
/// Throws UserError where the folder isn't back after two seconds, or what
/// `write` throws.
void write_while_moved(const std::string& folder,
                       const std::function<void()>& write);

}  // namespace sluice
