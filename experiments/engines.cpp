#include "experiments/engines.h"

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>

#include "experiments/assembly.h"
#include "experiments/worker_process.h"
#include "lib/base/error.h"
#include "lib/base/memory_channel.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
#include "lib/engines/virtual.h"
#include "lib/engines/worker_loop.h"
#include "transport/io_thread.h"
#include "transport/rendezvous.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

/// How long workers have to end by themselves, and say why, after one failed.
constexpr std::chrono::seconds kGrace(5);

std::size_t at(int block) {
  return static_cast<std::size_t>(block) - 1;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class CoordinatorSink final : public Sink {
 public:
  explicit CoordinatorSink(Coordinator& coordinator)
      : coordinator_(coordinator) {}
  void write(const Record& record) override { coordinator_.write(record); }

 private:
  Coordinator& coordinator_;
};

double run_in_one_thread(const Experiment& experiment, const RunFolder& folder,
                         Coordinator& coordinator) {
  const auto sink = std::make_shared<CoordinatorSink>(coordinator);
  std::vector<Ends> ends = memory_ends(experiment);
  std::vector<std::unique_ptr<Worker>> workers;
  for (int block = 1; block <= experiment.blocks(); ++block)
    workers.push_back(make_worker(experiment, block, std::move(ends[at(block)]),
                                  sink, folder.checkpoints()));
  const auto start = Clock::now();
  run_virtual(workers, experiment.plan, experiment.capacities, {}, coordinator);
  return seconds_since(start);
}

/// A thread per block; the control links are in memory.
double run_in_threads(const Experiment& experiment, const RunFolder& folder,
                      Coordinator& coordinator) {
  const Deadline deadline = std::chrono::seconds(experiment.timeout_seconds);
  std::vector<Ends> ends = memory_ends(experiment);
  std::vector<Link> server_links;
  std::vector<std::jthread> threads;
  const auto start = Clock::now();
  for (int block = 1; block <= experiment.blocks(); ++block) {
    auto [own, servers] = memory_link(
        kControlCapacity.up, kControlCapacity.down, deadline, "control link");
    server_links.push_back(std::move(servers));
    threads.emplace_back([&experiment, &folder, block, control = std::move(own),
                          mine = std::move(ends[at(block)])]() mutable {
      at::set_num_threads(static_cast<int>(experiment.threads));
      try {
        run_worker(experiment.plan.blocks[at(block)], control, [&] {
          return make_worker(experiment, block, std::move(mine),
                             control_sink(*control.sender),
                             folder.checkpoints());
        });
      } catch (const Error&) {
        // run_worker() has reported it to the coordinator, who throws it.
      }
    });
  }
  ControlServer(std::move(server_links), coordinator).serve(nullptr);
  return seconds_since(start);
}

/// Starts a worker process per block and serves them.
double run_in_processes(const Experiment& experiment, const RunFolder& folder,
                        const std::string& program, Coordinator& coordinator) {
  IoThread io;
  ChildProcesses children;
  RendezvousOptions meeting = rendezvous_options(experiment);
  meeting.check = [&] { children.check(); };
  Rendezvous rendezvous(io, meeting);
  for (int block = 1; block <= experiment.blocks(); ++block)
    children.start(
        fmt::format("block {}", block),
        worker_command(program, folder.path(), block, rendezvous.address()));
  std::vector<Link> links = rendezvous.accept_workers();
  const auto start = Clock::now();
  try {
    ControlServer(std::move(links), coordinator).serve([&] {
      children.kill_after(kGrace);
    });
  } catch (const LinkError&) {
    children.throw_if_killed();  // which says more than a lost link
    throw;
  }
  const double seconds = seconds_since(start);
  children.wait();
  return seconds;
}

}  // namespace

double run_engine(const Experiment& experiment, const RunFolder& folder,
                  const std::string& program, Coordinator& coordinator) {
  if (experiment.engine == "processes")
    return run_in_processes(experiment, folder, program, coordinator);
  if (experiment.engine == "threads")
    return run_in_threads(experiment, folder, coordinator);
  return run_in_one_thread(experiment, folder, coordinator);
}

}  // namespace sluice
