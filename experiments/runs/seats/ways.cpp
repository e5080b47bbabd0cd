#include "experiments/runs/seats/ways.h"

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/runs/ranks/rank.h"
#include "lib/base/by_block.h"
#include "lib/schedules/plan/neighbours.h"
#include "lib/schedules/replicas/replicas.h"
#include "transport/meeting/host_mark.h"

namespace sluice {
namespace {

constexpr std::string_view kWithinHost = "shared_memory";
constexpr std::string_view kBetweenHosts = "tls";

std::string own_mark() {
  return host_mark(process_environment()("SLUICE_HOST_MARK").value_or(""));
}

std::string way_between(const std::vector<std::string>& marks, int seat,
                        int other) {
  if (marks.empty()) return fmt::format("{}: one host", kWithinHost);
  const std::string& mark = by_block(marks, seat);
  if (mark.empty() || by_block(marks, other).empty())
    return fmt::format("{}: no /proc tells the host", kBetweenHosts);
  return mark == by_block(marks, other)
             ? fmt::format("{}: one host", kWithinHost)
             : fmt::format("{}: two hosts", kBetweenHosts);
}

/// Seats that it has links with, each link at one of its seats: those of the
/// next block, and of its block the later replicas.
std::vector<int> linked_above(const Experiment& experiment, int seat) {
  const SeatNames names = experiment.seat_names();
  std::vector<int> seats =
      neighbours_of(experiment.plans.front(), seat, Direction::above);
  for (int other = seat + 1; other <= experiment.seats(); ++other)
    if (names.block_of(other) == names.block_of(seat) &&
        !experiment.replicas.uses_mpi())
      seats.push_back(other);
  return seats;
}

}  // namespace

bool is_of_one_host(const std::string& launcher_address) {
  return launcher_address.find('/') != std::string::npos;  // a socket's path
}

void choose_transports(const Experiment& experiment, bool one_host,
                       RendezvousOptions& options) {
  options.transport = experiment.transport;
  if (experiment.transport != kAutoTransport) return;
  options.transport = one_host ? kWithinHost : kBetweenHosts;
  if (one_host) {
    options.reconnect = Deadline(0);  // a socket within a host doesn't break
    return;
  }
  options.near = kWithinHost;
  options.mark = own_mark();
}

std::optional<records::Ways> ways_of(const Experiment& experiment,
                                     const std::vector<std::string>& marks) {
  if (experiment.transport != kAutoTransport) return std::nullopt;
  const SeatNames names = experiment.seat_names();
  records::Ways ways;
  for (int seat = 1; seat <= experiment.seats(); ++seat)
    for (const int other : linked_above(experiment, seat))
      ways.links.emplace_back(
          fmt::format("{} - {}", names.of(seat), names.of(other)),
          way_between(marks, seat, other));
  if (ways.links.empty()) return std::nullopt;
  return ways;
}

std::string ways_text(const records::Ways& ways) {
  std::map<std::string, std::vector<std::string>> by_way;
  for (const auto& [link, way] : ways.links) by_way[way].push_back(link);
  if (by_way.size() == 1)
    return fmt::format("All links go over {}", by_way.begin()->first);
  std::vector<std::string> parts;
  for (const auto& [way, links] : by_way)
    parts.push_back(fmt::format("{} ({})", way, fmt::join(links, ", ")));
  return fmt::format("Links go over {}", fmt::join(parts, "; "));
}

}  // namespace sluice
