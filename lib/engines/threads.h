#pragma once

#include <functional>
#include <memory>

#include "lib/base/channel.h"
#include "lib/engines/coordinator.h"
#include "lib/workers/worker.h"

namespace sluice {

/// Makes the worker of a block; `control` is where its records go. Called on
/// the thread that the worker will run on.
using MakeWorkerOf =
    std::function<std::unique_ptr<Worker>(int block, Sender& control)>;

/// Runs each block in a thread of its own, with `threads` intra-op threads,
/// until the coordinator grants no more. Throws what the worker threw that
/// failed first, naming its block; all threads have ended by then.
void run_threads(const Plans& plans, std::int64_t threads,
                 const MakeWorkerOf& make, Coordinator& coordinator);

}  // namespace sluice
