#pragma once

#include <string>

namespace sluice {

/// Watches that this process ends by main() alone, from now until
/// reached_end(). Whatever else ends it by exit() or quick_exit(), or by
/// _exit() with the status 0, a plug-in or a library, makes it say so in a
/// line; the status 0 becomes 1, since the command hasn't done what it was to
/// do. Processes that it forks are not watched. An end by exec() or a signal
/// isn't seen.
void watch_for_early_exit(const std::string& program);

/// The last call of main(); returns the status that main() returns.
int reached_end(int status);

}  // namespace sluice
