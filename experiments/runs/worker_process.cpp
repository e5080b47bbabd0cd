#include "experiments/runs/worker_process.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <unistd.h>

#include "experiments/config/files/toml.h"
#include "experiments/runs/assembly.h"
#include "experiments/runs/devices.h"
#include "experiments/runs/faults/fault_injector.h"
#include "experiments/runs/gpu_links.h"
#include "experiments/runs/neighbour_links.h"
#include "experiments/runs/run_folder.h"
#include "experiments/runs/ways.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/memory/cached_buffers.h"
#include "lib/base/own_image.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"
#include "lib/engines/heartbeat.h"
#include "lib/engines/linked_crew.h"
#include "lib/engines/remote_observer.h"
#include "lib/engines/seat_order.h"
#include "lib/engines/seat_runner.h"
#include "lib/engines/worker_loop.h"
#include "lib/memory/allocator.h"
#include "lib/memory/resident.h"
#include "lib/metrics/records.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/links_centre.h"
#include "lib/replicas/groups/mpi.h"
#include "lib/replicas/groups/nccl.h"
#include "lib/schedules/executors.h"
#include "lib/tensors/current_device.h"

namespace sluice {

RendezvousOptions rendezvous_options(const Experiment& experiment,
                                     const Secret& secret) {
  const Deadline deadline = std::chrono::seconds(experiment.timeout_seconds);
  // A process takes a while to load its libraries, on a busy machine.
  constexpr Deadline kStart = std::chrono::minutes(1);
  return {.blocks = static_cast<std::uint32_t>(experiment.seats()),
          .name =
              [names = experiment.seat_names()](std::uint32_t seat) {
                // A peer may say any number.
                const auto seats = static_cast<std::uint32_t>(names.seats());
                return seat == 0 || seat > seats
                           ? block_name(seat)
                           : names.of(static_cast<int>(seat));
              },
          .secret = secret,
          .control = control_capacity(experiment.seats()),
          .patience = std::max(deadline, kStart),
          .deadline = deadline,
          .reconnect = std::chrono::milliseconds(
              std::llround(std::ceil(experiment.reconnect_seconds * 1000)))};
}

Secret secret_from_launcher() {
  std::string text;
  std::getline(std::cin, text);
  return parse_secret(text, "the worker's standard input");
}

namespace {

/// WorkerArguments as a record, in the environment of a worker.
constexpr const char* kWorkerVariable = "SLUICE_WORKER";

std::vector<std::string> sluice_worker(const std::string& program,
                                       const WorkerArguments& arguments) {
  std::vector<std::string> command = {
      program,    "worker",
      "--dir",    arguments.folder,
      "--block",  std::to_string(arguments.block),
      "--join",   arguments.address,
      "--parent", std::to_string(arguments.parent)};
  if (!arguments.resume.empty())
    command.insert(command.end(), {"--resume", arguments.resume});
  if (!arguments.faults.empty())
    command.insert(command.end(), {"--inject", arguments.faults});
  if (arguments.local_rank >= 0)
    command.insert(command.end(),
                   {"--local-rank", std::to_string(arguments.local_rank)});
  return command;
}

}  // namespace

ChildCommand worker_command(const WorkerProgram& program,
                            WorkerArguments arguments) {
  arguments.parent = ::getpid();
  if (program.arguments.empty())
    return {.arguments = sluice_worker(program.file, arguments)};
  return {.arguments = program.arguments,
          .file = program.file,
          .environment = {
              fmt::format("{}={}", kWorkerVariable, to_json(arguments))}};
}

std::shared_ptr<FedSource> fed_by(Batches batches) {
  return batches == Batches::with_grants ? std::make_shared<FedSource>()
                                         : nullptr;
}

std::optional<WorkerArguments> take_worker_arguments() {
  // The process has no other thread yet.
  const char* const text =
      std::getenv(kWorkerVariable);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return std::nullopt;
  WorkerArguments arguments;
  try {
    arguments = record_from_json(text).as<WorkerArguments>().value();
  } catch (const std::exception&) {
    throw UserError("{} is for Sluice's own worker processes: unset it",
                    kWorkerVariable);
  }
  ::unsetenv(kWorkerVariable);  // NOLINT(concurrency-mt-unsafe)
  return arguments;
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

/// One line each: the user may want to know of a bad network.
void say_reconnected(const SeatNames& names, int seat, std::uint32_t to,
                     std::chrono::milliseconds without) {
  fmt::print(stderr,
             "sluice: {}: the connection to {} broke and was made anew after "
             "{:.1f} s\n",
             names.of(seat),
             to == 0 ? "the launcher" : names.of(static_cast<int>(to)),
             std::chrono::duration<double>(without).count());
}

const BlockPlan& plan_of(const Experiment& experiment, int seat) {
  return by_block(experiment.plans.front().blocks, seat);
}

/// The seats of its neighbours on that side.
std::vector<int> neighbours_of(const Experiment& experiment, int seat,
                               Towards side) {
  return neighbours_of(experiment.plans.front(), seat, side);
}

/// The messages that the link with a neighbour holds.
Capacity capacity_to(const Experiment& experiment, int seat, Towards side,
                     int neighbour) {
  return capacity_between(experiment.plans.front(), experiment.capacities,
                          side == Towards::above ? SeatPair{seat, neighbour}
                                                 : SeatPair{neighbour, seat});
}

/// Of the only neighbour there, or the first; none at the ends of a chain.
Capacity capacity_of(const Experiment& experiment, int seat, Towards side) {
  const std::vector<int> seats = neighbours_of(experiment, seat, side);
  if (seats.empty()) return {};
  return capacity_to(experiment, seat, side, seats.front());
}

/// The seats of the other replicas of its block; replica r at index r-1.
std::vector<int> replicas_of(const Experiment& experiment, int seat) {
  std::vector<int> seats;
  for (const BlockPlan& plan : experiment.plans.front().blocks)
    if (plan.block == plan_of(experiment, seat).block)
      seats.push_back(plan.seat());
  return seats;
}

/// The neighbours of a seat, and the other replicas of its block.
std::vector<PeerLink> peers_of(const Experiment& experiment, int seat) {
  std::vector<PeerLink> peers;
  const auto add = [&](int peer, const Capacity& capacity) {
    peers.push_back({static_cast<std::uint32_t>(peer), capacity});
  };
  for (const Towards side : {Towards::below, Towards::above})
    for (const int peer : neighbours_of(experiment, seat, side)) {
      const Capacity capacity = capacity_to(experiment, seat, side, peer);
      // There, up is from the lower number to the higher one.
      const bool is_up = (side == Towards::above) == (seat < peer);
      add(peer, is_up ? capacity : Capacity{capacity.down, capacity.up});
    }
  if (experiment.replicas.uses_mpi()) return peers;
  for (const int peer : replicas_of(experiment, seat))
    if (peer != seat) add(peer, {kExchangeCapacity, kExchangeCapacity});
  return peers;
}

/// Without ends where there is no such peer.
Link take_link(Joined& joined, int peer) {
  const auto found = joined.peers.find(static_cast<std::uint32_t>(peer));
  return found == joined.peers.end() ? Link() : std::move(found->second);
}

std::string transport_to(const Joined& joined, int peer) {
  return joined.transports.at(static_cast<std::uint32_t>(peer));
}

/// A worker's links, those to the other replicas of its block included; of
/// itself an empty one.
struct SeatLinks : ChainLinks {
  std::vector<Link> replicas = {};  ///< index r-1
  /// With several neighbours on a side, by seat: not yet one link.
  std::map<int, Link> all_below = {};
  std::map<int, Link> all_above = {};
};

/// Those of a side where a seat has several, with what the injector does to
/// them.
std::map<int, Link> take_links(Joined& joined, const Experiment& experiment,
                               int seat, Towards side,
                               FaultInjector& injector) {
  std::map<int, Link> links;
  for (const int peer : neighbours_of(experiment, seat, side)) {
    const Capacity capacity = capacity_to(experiment, seat, side, peer);
    links[peer] = injector.with_faults(
        take_link(joined, peer), peer,
        side == Towards::above ? capacity.up : capacity.down);
  }
  return links;
}

/// Joined to the others; what the injector does to links is done to these.
SeatLinks join_others(IoThread& io, const Experiment& experiment,
                      const WorkerArguments& arguments,
                      RendezvousOptions options, FaultInjector& injector,
                      GpuLinks& gpu) {
  if (arguments.parent != 0)
    options.patience = options.deadline = kSupervisedDeadline;
  if (!arguments.faults.empty())
    options.damage = [&injector](std::uint32_t to, const Message& message,
                                 std::span<std::byte> frame) {
      injector.damage(static_cast<int>(to), message, frame);
    };
  const int seat = arguments.block;
  const Capacity below = capacity_of(experiment, seat, Towards::below);
  const Capacity above = capacity_of(experiment, seat, Towards::above);
  gpu.ask_for(below, above, options);
  Joined joined = join(io, arguments.address, static_cast<std::uint32_t>(seat),
                       peers_of(experiment, seat), std::move(options));
  SeatLinks links;
  links.control = std::move(joined.control);
  links.run = std::move(joined.run);
  const std::vector<int> lower =
      neighbours_of(experiment, seat, Towards::below);
  const std::vector<int> upper =
      neighbours_of(experiment, seat, Towards::above);
  if (lower.size() == 1) {
    links.below = take_link(joined, lower.front());
    links.below_over = transport_to(joined, lower.front());
  }
  if (upper.size() == 1) {
    links.above = take_link(joined, upper.front());
    links.above_over = transport_to(joined, upper.front());
  }
  if (plan_of(experiment, seat).exchange.members > 1 &&
      !experiment.replicas.uses_mpi())
    for (const int peer : replicas_of(experiment, seat))
      links.replicas.push_back(take_link(joined, peer));
  gpu.agree(links);
  if (lower.size() == 1)
    links.below = gpu.departing(injector.with_faults(
        std::move(links.below), lower.front(), below.down));
  else
    links.all_below =
        take_links(joined, experiment, seat, Towards::below, injector);
  if (upper.size() == 1)
    links.above = gpu.departing(
        injector.with_faults(std::move(links.above), upper.front(), above.up));
  else
    links.all_above =
        take_links(joined, experiment, seat, Towards::above, injector);
  return links;
}

/// What the seat has on one side, of its one link there or of all.
Link shown_side(Link one, std::map<int, Link> all, Heartbeat& heartbeat,
                const Experiment& experiment, int seat, Towards side) {
  const std::vector<int> seats = neighbours_of(experiment, seat, side);
  if (seats.empty()) return {};
  if (seats.size() == 1)
    return with_waits_shown(std::move(one), heartbeat, seats.front());
  for (auto& [neighbour, link] : all)
    link = with_waits_shown(std::move(link), heartbeat, neighbour);
  return link_to_neighbours(experiment.plans.front(), seat, side,
                            std::move(all));
}

/// The same links; waits show in the heartbeat, of which the launcher is told
/// every `period`.
SeatLinks with_waits_shown(SeatLinks links, Heartbeat& heartbeat,
                           const Experiment& experiment, int seat,
                           std::chrono::milliseconds period) {
  links.control.sender =
      with_heartbeat(std::move(links.control.sender), heartbeat, period);
  links.control =
      with_waits_shown(std::move(links.control), heartbeat, kLauncher);
  links.below = shown_side(std::move(links.below), std::move(links.all_below),
                           heartbeat, experiment, seat, Towards::below);
  links.above = shown_side(std::move(links.above), std::move(links.all_above),
                           heartbeat, experiment, seat, Towards::above);
  // Threads of their own serve those who come to a centre.
  const BlockPlan& plan = plan_of(experiment, seat);
  if (plan.exchange.served && plan.replica == 1) return links;
  const std::vector<int> peers = replicas_of(experiment, seat);
  for (std::size_t r = 0; r < links.replicas.size(); ++r)
    links.replicas[r] =
        with_waits_shown(std::move(links.replicas[r]), heartbeat, peers[r]);
  return links;
}

}  // namespace

namespace {

/// All blocks of the executor, each in a thread.
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
          fmt::print(stderr, "sluice: {}: {}\n",
                     experiment.seat_names().of(block), text_of(error));
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
  leave_signals_to_launcher();
  const Secret secret = secret_from_launcher();
  const Experiment experiment =
      read(read_toml_file(config_of_run(arguments.folder)));
  prepare_process(experiment);
  if (seats_beside(experiment.plans.front(), arguments.block).size() == 1)
    return work_in_run(experiment, arguments, secret, {}, batches);
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

/// Shows in the heartbeat that a seat waits for the other replicas.
class ShownGroup final : public Group {
 public:
  ShownGroup(std::unique_ptr<Group> group, Heartbeat& heartbeat)
      : group_(std::move(group)), heartbeat_(heartbeat) {}
  int members() const override { return group_->members(); }
  int member() const override { return group_->member(); }
  void start_sum(Tensors mine) override { group_->start_sum(std::move(mine)); }
  Tensors finish_sum() override {
    const Waiting waiting(heartbeat_, kAnyNeighbour);
    return group_->finish_sum();
  }
  bool is_ready() const override { return group_->is_ready(); }

 private:
  const std::unique_ptr<Group> group_;
  Heartbeat& heartbeat_;
};

/// Shows in the heartbeat that the seat that has the centre waits, too.
class ShownCentre final : public CentreLink {
 public:
  ShownCentre(std::unique_ptr<CentreLink> centre, Heartbeat& heartbeat)
      : centre_(std::move(centre)), heartbeat_(heartbeat) {}
  int members() const override { return centre_->members(); }
  int member() const override { return centre_->member(); }
  Centre* owned() override { return centre_->owned(); }
  Served visit(Push push) override {
    const Waiting waiting(heartbeat_, kAnyNeighbour);
    return centre_->visit(std::move(push));
  }
  std::int64_t bring(Push push) override {
    const Waiting waiting(heartbeat_, kAnyNeighbour);
    return centre_->bring(std::move(push));
  }
  Merged take(bool told) override {
    const Waiting waiting(heartbeat_, kAnyNeighbour);
    return centre_->take(told);
  }
  void arrive(Tensors statistics) override {
    centre_->arrive(std::move(statistics));
  }
  void await_rest() override {
    const Waiting waiting(heartbeat_, kAnyNeighbour);
    centre_->await_rest();
  }
  void finish() override { centre_->finish(); }

 private:
  const std::unique_ptr<CentreLink> centre_;
  Heartbeat& heartbeat_;
};

c10::Device device_of_worker(const Experiment& experiment,
                             const WorkerArguments& arguments) {
  std::optional<int> local_rank;
  if (arguments.local_rank >= 0) local_rank = arguments.local_rank;
  return device_of_seat(experiment, arguments.block, local_rank);
}

/// How a seat reaches the other replicas of its block; with MPI `session` is
/// that of the process.
Replicated::Ways ways_of(const Experiment& experiment, int seat,
                         std::vector<Link> links, Heartbeat& heartbeat,
                         const std::shared_ptr<MpiSession>& session,
                         const std::shared_ptr<MemoryAccount>& memory,
                         const c10::Device& device) {
  const BlockPlan& plan = plan_of(experiment, seat);
  if (plan.exchange.members == 1) return {};
  const std::string name = fmt::format("block {}", plan.block);
  if (plan.exchange.served) {
    auto centre = links_centre(std::move(links), plan.replica,
                               kSupervisedDeadline, name, memory);
    if (plan.replica > 1)
      return {.centre = std::move(centre)};  // links show it
    return {.centre =
                std::make_unique<ShownCentre>(std::move(centre), heartbeat)};
  }
  if (experiment.replicas.uses_nccl())
    return {.group = nccl_group(std::move(links), plan.replica, device, name)};
  if (!session)
    return {.group = links_group(std::move(links), plan.replica, name)};
  return {.group = std::make_unique<ShownGroup>(
              mpi_group(session,
                        {.members = static_cast<int>(experiment.replicas.count),
                         .member = plan.replica,
                         .colour = plan.block,
                         .name = name},
                        kSupervisedDeadline),
              heartbeat)};
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
  SeatLinks joined = with_waits_shown(
      join_others(io, experiment, arguments, options, injector, gpu), heartbeat,
      experiment, block, heartbeat_period(options.deadline));
  std::vector<Link> replicas = std::move(joined.replicas);
  ChainLinks links = gpu.around(std::move(joined));
  if (rank.joined) rank.joined(links.run);
  injector.tell(control_sink(*links.control.sender));
  const auto fed = fed_by(batches);
  const bool leads = first_beside(experiment.plans.front(), block) == block;
  // All ranks come here, one seat in each.
  const auto session =
      uses_mpi(experiment) ? std::make_shared<MpiSession>() : nullptr;
  const auto make = [&] {
    injector.starts();
    return make_seat(
        experiment, block,
        {std::move(links.below), std::move(links.above),
         ways_of(experiment, block, std::move(replicas), heartbeat, session,
                 memory, device),
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
    run_worker(block, experiment.plans, links.control, make, runner, fed.get());
  } catch (const std::exception& error) {
    if (session) session->break_off();
    // run_worker() has told the launcher, which prints it; but the launcher of
    // a rank may be what was lost, and its terminal another one.
    if (arguments.parent == 0)
      fmt::print(stderr, "sluice: rank {} ({}) ends: {}\n", block - 1,
                 experiment.seat_names().of(block), text_of(error));
    return 1;
  }
  return 0;
}

}  // namespace sluice
