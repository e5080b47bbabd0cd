#include "experiments/runs/processes/worker_process.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/faults/fault_injector.h"
#include "experiments/runs/folder/run_folder.h"
#include "experiments/runs/processes/own_terms.h"
#include "experiments/runs/ranks/cut_off.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/devices.h"
#include "experiments/runs/seats/gpu_links.h"
#include "experiments/runs/seats/replica_ways.h"
#include "experiments/runs/seats/seat_links.h"
#include "experiments/runs/seats/ways.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/files/user_text.h"
#include "lib/base/memory/cached_buffers.h"
#include "lib/base/own_image.h"
#include "lib/engines/centre_notices.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/remote_observer.h"
#include "lib/engines/seat_order.h"
#include "lib/engines/seat_runner.h"
#include "lib/engines/worker_loop.h"
#include "lib/memory/allocator.h"
#include "lib/memory/resident.h"
#include "lib/metrics/records.h"
#include "lib/replicas/groups/mpi.h"
#include "lib/schedules/orders/executors.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/gpu/current_device.h"

namespace sluice {

std::shared_ptr<FedSource> fed_by(Batches batches) {
  return batches == Batches::with_grants ? std::make_shared<FedSource>()
                                         : nullptr;
}

namespace {

/// Adds to what the block has cost what only its process knows: by how much it
/// has grown, at most, since this object was made, how often it reconnected,
/// and how what it has on a GPU was sent.
class ProcessSink final : public Sink {
 public:
  ProcessSink(std::shared_ptr<Sink> next,
              const std::atomic<std::int64_t>& reconnections,
              const GpuLinks& gpu, bool leads)
      : next_(std::move(next)),
        reconnections_(reconnections),
        gpu_(gpu),
        leads_(leads) {}
  void write(const Record& record) override {
    auto block = record.as<records::Block>();
    if (!block) return next_->write(record);
    if (leads_) block->resident_bytes = resident_size().peak - at_start_;
    if (reconnections_ > 0) block->reconnections = reconnections_;
    gpu_.describe(*block);
    next_->write(*block);
  }

 private:
  std::shared_ptr<Sink> next_;
  const std::atomic<std::int64_t>& reconnections_;
  const GpuLinks& gpu_;
  bool leads_;  // the others of its process, which count for its block
  std::int64_t at_start_ = resident_size().now;
};

/// A line for each reconnection: the user may want to know of a bad network.
void say_reconnected(const SeatNames& names, int seat, std::uint32_t to,
                     std::chrono::milliseconds without) {
  say("sluice: {}: the connection to {} broke and was made anew after "
      "{:.1f} s\n",
      names.of(seat), to == 0 ? "the launcher" : names.of(static_cast<int>(to)),
      std::chrono::duration<double>(without).count());
}

/// Runs all blocks of the executor, each in a thread.
int work_beside_each_other(const Experiment& experiment,
                           const WorkerArguments& arguments,
                           const Secret& secret, Batches batches) {
  const RunPlan& plan = experiment.plans.front();
  const auto order = std::make_shared<SeatOrder>(
      experiment.plans, executor_of(plan, arguments.block));
  std::atomic<int> worst = 0;
  {
    std::vector<std::jthread> seats;
    for (const int block : seats_beside(plan, arguments.block))
      seats.emplace_back([&, block] {
        WorkerArguments mine = arguments;
        mine.block = block;
        try {
          const int status =
              work_in_run(experiment, mine, secret, {}, batches, order);
          if (status != 0) worst = status;
        } catch (const std::exception& error) {
          order->fail();
          worst = 1;
          say("sluice: {}: {}\n", experiment.seat_names().of(block),
              text_of(error));
        }
      });
  }
  return worst;
}

}  // namespace

int run_worker_process(
    const WorkerArguments& arguments,
    const std::function<Experiment(const ConfigNode& config)>& read,
    Batches batches) {
  die_with_parent(arguments.parent);
  show_own_name();
  leave_signals_to_launcher(batches == Batches::of_data
                                ? TimeLimit::stops_launcher
                                : TimeLimit::nothing);
  const Secret secret = secret_from_launcher();
  const Experiment experiment =
      read(read_toml_file(config_of_run(arguments.folder)));
  prepare_process(experiment);
  RankHooks hooks;
  if (arguments.joins > 0) hooks.terms = to_text(terms_of(experiment, 0));
  if (seats_beside(experiment.plans.front(), arguments.block).size() == 1)
    return work_in_run(experiment, arguments, secret, hooks, batches);
  return work_beside_each_other(experiment, arguments, secret, batches);
}

int run_worker_process(const WorkerArguments& arguments) {
  return run_worker_process(
      arguments,
      [](const ConfigNode& config) { return read_experiment(config, ""); },
      Batches::of_data);
}

namespace {

bool uses_mpi(const Experiment& experiment) {
  return experiment.replicas.uses_mpi() && experiment.replicas.count > 1;
}

c10::Device device_of_worker(const Experiment& experiment,
                             const WorkerArguments& arguments) {
  std::optional<int> local_rank;
  if (arguments.local_rank >= 0) local_rank = arguments.local_rank;
  return device_of_seat(experiment, arguments.block, local_rank);
}

}  // namespace

int work_in_run(const Experiment& experiment, const WorkerArguments& arguments,
                const Secret& secret, const RankHooks& rank, Batches batches,
                std::shared_ptr<SeatOrder> order) {
  const int block = arguments.block;
  at::set_num_threads(static_cast<int>(experiment.threads));  // this thread's
  const c10::Device device = device_of_worker(experiment, arguments);
  const CurrentDevice on(device);
  const auto memory = memory_of_seat(experiment, block);
  RendezvousOptions options = rendezvous_options(experiment, secret);
  choose_transports(experiment, is_of_one_host(arguments.address), options);
  options.run = rank.terms;
  if (allocator_installed()) options.buffers = cached_buffers(memory);
  GpuLinks gpu(experiment, block, device);
  std::atomic<std::int64_t> reconnections = 0;
  options.reconnected = [&](std::uint32_t to,
                            std::chrono::milliseconds without) {
    ++reconnections;
    say_reconnected(experiment.seat_names(), block, to, without);
  };
  // A message may come at once, into pinned memory.
  IoThread io([device](const auto& loop) {
    const CurrentDevice on_its_thread(device);
    loop();
  });
  Heartbeat heartbeat([&io] { io.note_progress(); });
  FaultInjector injector(parse_injections(arguments.faults, experiment.seats()),
                         block, heartbeat);
  SeatLinks own =
      join_others(io, experiment, arguments, options, injector, gpu);
  const auto notices = std::make_shared<CentreNotices>();
  if (has_centre(by_block(experiment.plans.front().blocks, block)))
    own.control.receiver =
        with_notices_ahead(std::move(own.control.receiver), notices);
  SeatLinks joined =
      with_waits_shown(std::move(own), heartbeat, experiment, block,
                       heartbeat_period(options.deadline));
  const auto to_newcomer = [&](const Newcomer& newcomer) {
    const WaitScope waiting(heartbeat, kAnyNeighbour);
    return link_to_newcomer(io, experiment, block, newcomer, options);
  };
  SeatLinks links = around_gpu(std::move(joined), gpu, experiment, block);
  if (rank.joined) rank.joined(links.run);
  injector.tell(control_sink(*links.control.sender));
  const auto fed = fed_by(batches);
  const bool leads = first_beside(experiment.plans.front(), block) == block;
  // A session for the whole job: all ranks come here, with one seat each.
  const auto session =
      uses_mpi(experiment) ? std::make_shared<MpiSession>() : nullptr;
  const auto make = [&] {
    injector.starts();
    return make_seat(
        experiment, block,
        {std::move(links.below), std::move(links.above),
         replica_ways(experiment, block, std::move(links.replicas), heartbeat,
                      session, memory, device, *notices),
         memory, device},
        std::make_shared<ProcessSink>(control_sink(*links.control.sender),
                                      reconnections, gpu, leads),
        {.checkpoints = checkpoints_of_run(arguments.folder),
         .resume = arguments.resume},
        experiment.probe_every > 0
            ? remote_observer(*links.control.sender, experiment.probe_every)
            : nullptr,
        fed);
  };
  SeatRunner runner(heartbeat, injector.around());
  if (order) runner.share(std::move(order));
  try {
    run_worker(block, experiment.plans, links.control, make, runner, fed.get(),
               to_newcomer);
  } catch (const std::exception& error) {
    if (session) session->break_off();
    // run_worker() has told the launcher, which prints it; but the launcher of
    // a rank may be what was lost, and its terminal another one.
    if (arguments.joins > 0)
      say("sluice: {} ends: {}\n", experiment.seat_names().of(block),
          reason_of_end(error, *links.control.receiver));
    else if (arguments.parent == 0)
      say("sluice: rank {} ({}) ends: {}\n", block - 1,
          experiment.seat_names().of(block),
          reason_of_end(error, *links.control.receiver));
    return 1;
  }
  return 0;
}

}  // namespace sluice
