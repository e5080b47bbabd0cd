// Time and memory that a plan takes: channels' capacities, a timeline, and the
// steady speed, for blocks of equal work.
//
// usage: plan_benchmark BLOCKS REPLICAS TURNS [ORDER [MICRO_BATCHES [DELAY]]]
//
// ORDER is a row of schedule_rows(), "turns" by default; DELAY that of each
// boundary. Replicas exchange gradients, those of "free" by a server.
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>

#include "lib/base/error.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"
#include "lib/schedules/simulation/speed.h"

namespace sluice {
namespace {

struct Size {
  int blocks = 1;
  int replicas = 1;
  std::int64_t turns = 1;
  std::string order = "turns";
  std::int64_t micro_batches = 1;
  std::int64_t delay = 0;
};

Size size_from(std::span<char*> arguments) {
  if (arguments.size() < 4)
    throw UserError(
        "usage: plan_benchmark BLOCKS REPLICAS TURNS [ORDER [MICRO_BATCHES "
        "[DELAY]]]");
  Size size{std::atoi(arguments[1]), std::atoi(arguments[2]),
            std::atoll(arguments[3])};
  if (arguments.size() > 4) size.order = arguments[4];
  if (arguments.size() > 5) size.micro_batches = std::atoll(arguments[5]);
  if (arguments.size() > 6) size.delay = std::atoll(arguments[6]);
  return size;
}

RunPlan plan_of(const Size& size) {
  ScheduleOptions options;
  options.micro_batches.count = size.micro_batches;
  options.micro_batches.samples = size.micro_batches;
  const std::vector<Traits> boundaries(
      static_cast<std::size_t>(size.blocks) - 1, Traits{.delay = size.delay});
  const RunPlan one =
      find_row(schedule_rows(), size.order, "order").make(boundaries, options);
  ReplicaExchange exchange{.what = ExchangedTensors::gradients};
  if (runs_free(one)) {
    exchange.agrees = exchange.served = true;
    exchange.graph.shape = PeerShape::complete;
  }
  return with_replicas(one, size.replicas, exchange);
}

Costs costs_of(const Size& size) {
  Costs costs{.latency = 0.01};
  costs.blocks.assign(
      static_cast<std::size_t>(size.blocks),
      {.seconds = {{Op::forward, 1}, {Op::backward, 2}, {Op::update, 0.25}}});
  costs.exchange_bytes.assign(static_cast<std::size_t>(size.blocks), 1e6);
  costs.exchange_link = {.latency = 1e-3, .bandwidth = 1e9};
  return costs;
}

/// The most memory that the process has had so far.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Runs a step, which returns its actions or 0, and prints what it took.
template <class Step>
void measure(const char* name, const Step& step) {
  const std::clock_t start = std::clock();
  const std::size_t actions = step();
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print("{:<10} {:>8.2f} s  {:>7.0f} MiB", name, seconds, peak_mib());
  if (actions > 0)
    fmt::print("  {} actions, {:.2f} us each", actions,
               1e6 * seconds / static_cast<double>(actions));
  fmt::print("\n");
}

void run(const Size& size) {
  const RunPlan plan = plan_of(size);
  const Costs costs = costs_of(size);
  std::vector<Capacity> capacities;
  measure("capacities", [&] {
    capacities = capacities_of(plan, 2);
    return std::size_t{0};
  });
  measure("timeline", [&] {
    return simulate(plan, costs, capacities, Grant{.end_turn = size.turns})
        .size();
  });
  measure("speed", [&] {
    const Speed speed = steady_speed(plan, costs, capacities);
    fmt::print("{:.6g} s a turn, bubble {:.1f} %\n", speed.seconds_per_turn,
               100 * bubble_of(speed));
    return std::size_t{0};
  });
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  try {
    sluice::run(
        sluice::size_from({arguments, static_cast<std::size_t>(count)}));
  } catch (const sluice::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
