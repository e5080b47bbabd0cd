#include "tests/simcuda/programs/turn_costs.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <memory>
#include <regex>
#include <utility>
#include <vector>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <fmt/format.h>

#include "experiments/config/experiment.h"
#include "experiments/config/files/toml.h"
#include "experiments/runs/assembly.h"
#include "lib/base/by_block.h"
#include "lib/base/departing_sender.h"
#include "lib/base/error.h"
#include "lib/engines/virtual_crew.h"
#include "lib/metrics/gpu_clock.h"
#include "lib/tensors/pinned_buffers.h"
#include "lib/tensors/staged_sender.h"
#include "tests/experiments/helpers/program.h"
#include "tests/simcuda/simcuda.h"
#include "transport/links/connection.h"
#include "transport/links/io_thread.h"

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

/// Two ends of a link over a socket, each with a loop of its own.
class SocketLinks {
 public:
  std::pair<Link, Link> link(const Capacity& capacity,
                             const c10::Device& device) {
    namespace asio = boost::asio;
    IoThread& lower = *loops_.emplace_back(std::make_unique<IoThread>());
    IoThread& upper = *loops_.emplace_back(std::make_unique<IoThread>());
    asio::local::stream_protocol::socket a(lower.context());
    asio::local::stream_protocol::socket b(upper.context());
    asio::local::connect_pair(a, b);
    LinkOptions options{.capacity_send = capacity.up,
                        .capacity_receive = capacity.down,
                        .buffers = pinned_buffers(device)};
    Link up = open_link(lower, Stream(Socket(std::move(a))), options);
    std::swap(options.capacity_send, options.capacity_receive);
    Link down = open_link(upper, Stream(Socket(std::move(b))), options);
    return {staged(std::move(up)), staged(std::move(down))};
  }

 private:
  static Link staged(Link link) {
    link.sender = staged_sender(
        departing_sender(std::move(link.sender), std::chrono::minutes(1)));
    return link;
  }

  std::vector<std::unique_ptr<IoThread>> loops_;
};

std::vector<Ends> socket_ends(const Experiment& experiment,
                              SocketLinks& links) {
  std::vector<Ends> ends(kCostedBlocks);
  for (int block = 1; block < kCostedBlocks; ++block) {
    auto [below, above] = links.link(by_block(experiment.capacities, block),
                                     c10::Device(c10::DeviceType::CUDA, 0));
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
  const Outcome run = shell(fmt::format(
      "SIMCUDA_SUMMARY=1 {} run {} engine=processes transport=shared_memory "
      "turns={} --dir {}/{}",
      SLUICE_SIM_PROGRAM, file, turns, folder, turns));
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

TurnCosts costs_in_process(const std::string& config, bool over_sockets) {
  const Experiment experiment =
      read_experiment(parse_toml(config, "turn costs"), "");
  prepare_process(experiment);
  SocketLinks links;
  std::vector<Ends> ends =
      over_sockets ? socket_ends(experiment, links) : memory_ends(experiment);
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
  return per_costed_turn(inner);
}

TurnCosts costs_by_ipc(const std::string& config, const std::string& folder) {
  const TurnCosts shorter = counts_at_end(config, folder, kFirstCosted);
  const TurnCosts longer = counts_at_end(config, folder, kCostedTurns);
  return per_costed_turn(difference_of(longer, shorter));
}

}  // namespace sluice
