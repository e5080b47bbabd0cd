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
/// "./mine sweep optimizer.lr=0.1,0.01 --seeds 3" does a run for each, as
/// `sluice sweep` does (docs/programs.md): each in a process of its own, with
/// `train` and its Network::record(). A `seed` there, or on the command line,
/// is also given to LibTorch's process-wide generator, before layers are made.
///
/// Installs the fast allocator (lib/memory/allocator.h) for the whole process,
/// so that no other thread should use LibTorch when it is called.
///
/// Returns the exit status: 0; 2 after an error that the user can mend, 1 after
/// another, each said in one line on stderr.
int main(int argc, char** argv, const NetworkOptions& options,
         const std::function<void(Network&)>& train);

/// Main program with Sluice's own loop and its commands (`sluice help`):
///
///   int main(int argc, char** argv) {
///     return sluice::main(argc, argv, {.layers = ..., .settings = R"(
///       data.name = "cifar10"
///       epochs = 30)"});
///   }
///
///   ./mine run                        a run folder, as of `sluice run`
///   ./mine sweep optimizer.lr=0.1,0.2 --seeds 3
///   ./mine eval runs/mine-1           as export, verify, plan, report, ...
///
/// The settings have all keys of a config but [model]; the data set is one of
/// the tables or of NetworkOptions::data_sets, with samples as the example. A
/// command that wants a config takes these options, unless a file is named, in
/// which [model] says name = "own". What it writes `sluice report`, `watch`
/// and `checkpoint` read too; other commands need this program.
///
/// Weights follow from `seed`: the factories draw them from LibTorch's
/// process-wide generator, which begins with a key for each layer. Policies of
/// one's own must draw by BoundarySite::seed. The program is started anew for
/// worker processes and for the runs of a sweep: nothing before this call
/// should take long or have effects. Returns the exit status of the command.
int main(int argc, char** argv, const NetworkOptions& options);

}  // namespace sluice
