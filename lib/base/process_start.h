#pragma once

namespace sluice {

/// The first call of a main(): mends what a process may have inherited that
/// Sluice can't work with. Standard streams that are closed become /dev/null,
/// so that no file of a run takes their place; children that end are waited for
/// (SIGCHLD).
void begin_process();

}  // namespace sluice
