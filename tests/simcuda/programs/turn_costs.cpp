#include "tests/simcuda/programs/turn_costs.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <functional>
#include <memory>
#include <regex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/messages/departing_sender.h"
#include "lib/engines/virtual_crew.h"
#include "lib/metrics/gpu_clock.h"
#include "lib/tensors/gpu/pinned_buffers.h"
#include "lib/tensors/gpu/registered_memory.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "tests/experiments/helpers/program.h"
#include "tests/simcuda/simcuda.h"
#include "transport/links/connection.h"
#include "transport/links/io_thread.h"
#include "transport/shared/shared_memory.h"

namespace sluice {
namespace {

constexpr int kInnerBlock = 2;
constexpr int kCostedBlocks = 3;
// As many turns as one stands for whose times are taken (GpuClock), after those
// that are all timed.
constexpr std::int64_t kFirstCosted = 16;  ///< turn that is counted
constexpr std::int64_t kCostedTurns = kFirstCosted + GpuClock::kTimed;

std::int64_t per_costed_turn(std::int64_t value) {
  constexpr std::int64_t kTurns = kCostedTurns - kFirstCosted;
  return (value + kTurns - 1) / kTurns;
}

constexpr std::string_view kInGraphs = "graphs";  ///< end of a kind

/// Waits are those of this thread: others may wait for the GPU meanwhile.
TurnCosts costs_so_far() {
  const simcuda::Counts c = simcuda::counts();
  return {.launches = c.launches,
          .waits = simcuda::waits_of_this_thread(),
          .copies = c.pinned_to_device + c.pageable_to_device +
                    c.device_to_pinned + c.device_to_pageable +
                    c.between_devices,
          .events = c.events_recorded - c.events_of_clocks};
}

TurnCosts difference_of(const TurnCosts& after, const TurnCosts& before) {
  return {.launches = after.launches - before.launches,
          .waits = after.waits - before.waits,
          .copies = after.copies - before.copies,
          .events = after.events - before.events};
}

TurnCosts per_costed_turn(const TurnCosts& of_all) {
  return {.launches = per_costed_turn(of_all.launches),
          .waits = per_costed_turn(of_all.waits),
          .copies = per_costed_turn(of_all.copies),
          .events = per_costed_turn(of_all.events)};
}

/// Slots that hold any message of these nets.
constexpr std::size_t kCostedSlots = 8;
constexpr std::size_t kCostedSlotBytes = std::size_t{1} << 20;

/// Both ends of links through the host, each with a loop of its own.
class HostLinks {
 public:
  HostLinks(WayInProcess way, const c10::Device& device)
      : way_(way), device_(device) {}

  std::pair<Link, Link> link(const Capacity& capacity) {
    namespace asio = boost::asio;
    IoThread& lower = *loops_.emplace_back(std::make_unique<IoThread>());
    IoThread& upper = *loops_.emplace_back(std::make_unique<IoThread>());
    asio::local::stream_protocol::socket a(lower.context());
    asio::local::stream_protocol::socket b(upper.context());
    asio::local::connect_pair(a, b);
    LinkOptions options{.capacity_send = capacity.up,
                        .capacity_receive = capacity.down,
                        .buffers = pinned_buffers(device_)};
    if (way_ == WayInProcess::pinned)
      options.shared_memory = {.slots = kCostedSlots,
                               .slot_bytes = kCostedSlotBytes,
                               .slots_on_demand = true};
    const auto open =
        way_ == WayInProcess::socket ? open_link : open_shared_link;
    Link up = open(lower, Stream(Socket(std::move(a))), options, {});
    std::swap(options.capacity_send, options.capacity_receive);
    Link down = open(upper, Stream(Socket(std::move(b))), options, {});
    meet(up, down);
    meet(down, up);
    return {staged(std::move(up)), staged(std::move(down))};
  }

  /// That the host copied so far.
  std::int64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& copied : copied_) sum += copied();
    return static_cast<std::int64_t>(sum);
  }

 private:
  /// Each end has the other's memory when something has come.
  static void meet(const Link& from, const Link& to) {
    from.sender->send({});
    to.receiver->receive();
  }

  BufferSource pinned_slots(const Link& link) const {
    if (way_ != WayInProcess::pinned) return nullptr;
    const PinMemory pin = [this](std::span<std::byte> memory,
                                 std::string& why) {
      return registered_memory(device_, memory, why);
    };
    const std::string why = pin_slots(*link.sender, kCostedSlots, pin) +
                            pin_slots(*link.receiver, kCostedSlots, pin);
    if (!why.empty()) throw InternalError("{}", why);
    return free_slots_of(*link.sender, kCostedSlots);
  }

  Link staged(Link link) {
    copied_.emplace_back(
        [sender = link.sender.get()] { return copied_bytes(*sender); });
    copied_.emplace_back(
        [receiver = link.receiver.get()] { return copied_bytes(*receiver); });
    BufferSource slots = pinned_slots(link);
    link.sender = staged_sender(
        departing_sender(std::move(link.sender), std::chrono::minutes(1)),
        nullptr, std::move(slots));
    return link;
  }

  const WayInProcess way_;
  const c10::Device device_;
  std::vector<std::unique_ptr<IoThread>> loops_;
  std::vector<std::function<std::uint64_t()>> copied_;  // while there are links
};

std::vector<Ends> host_ends(const Experiment& experiment, HostLinks& links) {
  std::vector<Ends> ends(kCostedBlocks);
  for (int block = 1; block < kCostedBlocks; ++block) {
    auto [below, above] = links.link(by_block(experiment.capacities, block));
    by_block(ends, block).above = std::move(below);
    by_block(ends, block + 1).below = std::move(above);
  }
  return ends;
}

/// The counts of the program's process for the inner block, at its end.
TurnCosts counts_at_end(const std::string& config, const std::string& folder,
                        std::int64_t turns) {
  const std::string file = fmt::format("{}/{}.toml", folder, turns);
  std::ofstream(file) << config;
  // Processes that share a GPU use CUDA IPC where MPS has them compute at the
  // same time.
  std::ofstream(folder + "/control") << "";
  const Outcome run = shell(
      fmt::format("SIMCUDA_SUMMARY=1 CUDA_MPS_PIPE_DIRECTORY={} {} run {} "
                  "engine=processes transport=shared_memory turns={} --dir "
                  "{}/{}",
                  folder, SLUICE_SIM_PROGRAM, file, turns, folder, turns));
  if (run.status != 0) throw InternalError("{}", run.text);
  const std::regex line(fmt::format(
      "--block {} .*launches ([0-9]+); waits of the host for items ([0-9]+), "
      "copies ([0-9]+), events ([0-9]+), streams ([0-9]+), devices ([0-9]+); "
      "event queries [0-9]+; events made [0-9]+, recorded ([0-9]+) \\(of "
      "clocks ([0-9]+)\\), .*from "
      "pinned memory ([0-9]+), from pageable ([0-9]+), to pinned ([0-9]+), to "
      "pageable ([0-9]+), between devices ([0-9]+);",
      kInnerBlock));
  std::smatch found;
  if (!std::regex_search(run.text, found, line))
    throw InternalError("no summary of block {} in: {}", kInnerBlock, run.text);
  std::array<std::int64_t, 14> n = {};
  for (std::size_t i = 1; i < n.size(); ++i) n.at(i) = std::stoll(found[i]);
  return {.launches = n[1],
          // Events are those of the clock, which is read at the run's end.
          .waits = n[2] + n[3] + n[5] + n[6],
          .copies = n[9] + n[10] + n[11] + n[12] + n[13],
          .events = n[7] - n[8]};
}

}  // namespace

std::string to_text(const TurnCosts& costs) {
  return fmt::format("{{{}, {}, {}, {}}}", costs.launches, costs.waits,
                     costs.copies, costs.events);
}

std::string turn_costs_config(std::string_view net, std::string_view kind,
                              const std::string& text) {
  if (kind.ends_with(kInGraphs))
    return "graphs = true\n" +
           turn_costs_config(
               net, kind.substr(0, kind.size() - kInGraphs.size()), text);
  std::string model;
  if (net == "resnet32")
    model =
        "blocks = ['0-5', '6-10', '11-']\nmodel = {name = 'resnet32'}\n"
        "data = {train = 320, test = 64, prefetch = 0}\n";
  else
    model = fmt::format(
        "blocks = ['0-1', '2-3', '4-']\nmodel = {{name = 'gpt', layers = 4, "
        "width = 64, heads = 4, dropout = {}}}\ndata = {{name = 'text', file = "
        "'{}', context = 32, prefetch = 0}}\n",
        kind == "dropout" ? 0.1 : 0.0, text);
  const std::string clip = kind == "clipping" ? ", clip = {norm = 1.0}" : "";
  const std::string optimizer = kind == "adam"
                                    ? "name = 'adam', lr = 1e-4"
                                    : "name = 'sgd', lr = 0.01, momentum = 0.9";
  return fmt::format(
      "{}device = 'cuda:0'\nbatch_size = 2\nthreads = 1\nturns = {}\n"
      "boundary = {{policy = 'backprop'}}\noptimizer = {{{}{}}}\n",
      model, kCostedTurns, optimizer, clip);
}

namespace {

struct CostsInProcess {
  TurnCosts inner;         ///< of the inner block, of all turns that count
  std::int64_t bytes = 0;  ///< copied by the host, of all turns
};

CostsInProcess run_in_process(const std::string& config, WayInProcess way) {
  const Experiment experiment =
      read_experiment(parse_toml(config, "turn costs"), "");
  prepare_process(experiment);
  HostLinks links(way, c10::Device(c10::DeviceType::CUDA, 0));
  std::vector<Ends> ends = way == WayInProcess::memory
                               ? memory_ends(experiment)
                               : host_ends(experiment, links);
  Seats seats;
  for (int block = 1; block <= kCostedBlocks; ++block)
    seats.push_back(make_seat(experiment, block,
                              std::move(by_block(ends, block)), nullptr, {}));
  RunLength length = experiment.length;
  length.evaluation_batches = 0;
  Coordinator coordinator(length, kCostedBlocks, nullptr, nullptr);
  TurnCosts inner;
  TurnCosts before = costs_so_far();
  const auto count = [&](const TimedAction& timed) {
    const TurnCosts now = costs_so_far();
    if (timed.seat == kInnerBlock && timed.action.turn >= kFirstCosted &&
        timed.action.turn < kCostedTurns) {
      const TurnCosts its = difference_of(now, before);
      inner = {.launches = inner.launches + its.launches,
               .waits = inner.waits + its.waits,
               .copies = inner.copies + its.copies,
               .events = inner.events + its.events};
    }
    before = now;
  };
  VirtualCrew crew(seats,
                   {.plans = experiment.plans,
                    .capacities = experiment.capacities,
                    .threads = 1,
                    .watch = count},
                   events_for(coordinator));
  run_to_end(crew, coordinator);
  return {.inner = inner, .bytes = links.bytes()};
}

}  // namespace

TurnCosts costs_in_process(const std::string& config, WayInProcess way) {
  return per_costed_turn(run_in_process(config, way).inner);
}

std::int64_t bytes_copied_by_host(const std::string& config, WayInProcess way) {
  return run_in_process(config, way).bytes / kCostedTurns;
}

TurnCosts costs_by_ipc(const std::string& config, const std::string& folder) {
  const TurnCosts shorter = counts_at_end(config, folder, kFirstCosted);
  const TurnCosts longer = counts_at_end(config, folder, kCostedTurns);
  return per_costed_turn(difference_of(longer, shorter));
}

}  // namespace sluice
