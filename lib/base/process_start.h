#pragma once

namespace sluice {

/// For a main(), as its first act: mends what a process may have inherited and
/// nothing here can work with. Standard streams that are closed become
/// /dev/null, so that no file of a run takes their place; children that end are
/// waited for (SIGCHLD).
void begin_process();

}  // namespace sluice
