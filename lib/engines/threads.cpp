#include "lib/engines/threads.h"

#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>

#include "lib/base/memory_channel.h"
#include "lib/engines/control.h"
#include "lib/engines/worker_loop.h"

namespace sluice {
namespace {

void run_thread(int block, const Plans& plans, std::int64_t threads,
                const MakeWorkerOf& make, Link control) {
  at::set_num_threads(static_cast<int>(threads));
  try {
    run_worker(block, plans, control,
               [&] { return make(block, *control.sender); });
  } catch (const std::exception&) {
    // run_worker() has told the coordinator, who throws it.
  }
}

}  // namespace

void run_threads(const Plans& plans, std::int64_t threads,
                 const MakeWorkerOf& make, Coordinator& coordinator) {
  std::vector<Link> links;
  std::vector<std::jthread> running;
  for (const BlockPlan& plan : plans.at(0).blocks) {
    auto [worker, server] =
        memory_link(kControlCapacity.up, kControlCapacity.down,
                    kControlDeadline, "control link");
    links.push_back(std::move(server));
    running.emplace_back(run_thread, plan.block, std::cref(plans), threads,
                         std::cref(make), std::move(worker));
  }
  ControlServer(std::move(links), coordinator).serve(nullptr);
}

}  // namespace sluice
