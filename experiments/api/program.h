#pragma once

#include <functional>

#include "experiments/api/network.h"

namespace sluice {

/// The whole main() of a program that trains a network of its own, on every
/// engine:
///
///   int main(int argc, char** argv) {
///     return sluice::main(argc, argv, {.layers = ...}, [](auto& net) {
///       for (...) net.step(images, labels);
///     });
///   }
///
/// The command line replaces keys of the settings: "engine=processes",
/// "optimizer.lr=0.1". "--dir FOLDER" has a run written there, or elsewhere
/// than NetworkOptions::run says; "--overwrite" and "--resume" are its members:
/// the loop of a program that can be resumed begins at net.turns(). When
/// `train` returns the run is finished (Network::finish). Under `processes`
/// this program is started anew for each block, with the same command line and
/// SLUICE_WORKER in its environment: there, this function is the block's worker
/// and never calls `train`, so nothing before it should take long or have
/// effects. The factories must be the same; the weights, which they draw from
/// LibTorch's process-wide generator or load, come from the launcher's. A
/// worker that hangs for settings' `timeout` while the program waits for it is
/// named in the error, as in `sluice run`; how long a program takes between two
/// steps doesn't matter.
///
/// Installs the fast allocator (lib/memory/allocator.h) for the whole process,
/// so that no other thread should use LibTorch when it is called.
///
/// Returns the exit status: 0; 2 after an error that the user can mend, 1 after
/// another, each said in one line on stderr.
int main(int argc, char** argv, const NetworkOptions& options,
         const std::function<void(Network&)>& train);

}  // namespace sluice
