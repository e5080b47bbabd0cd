#include "tests/simcuda/report.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::simcuda {
namespace {

/// Prints the summary when the program ends.
struct SummaryAtExit {
  ~SummaryAtExit() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other threads are left
    if (std::getenv("SIMCUDA_SUMMARY") != nullptr) print_summary();
  }
};
const SummaryAtExit at_end;

std::string command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::string line((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  std::replace(line.begin(), line.end(), '\0', ' ');
  return line;
}

}  // namespace

void report(const std::string& text) {
  Machine& m = machine();
  if (m.collects_reports) {
    m.reports.push_back(text);
    return;
  }
  fmt::print(stderr, "simulated GPU: {}\n", text);
  std::_Exit(kReported);
}

void collect_reports(bool collect) {
  const Lock lock(machine().mutex);
  machine().collects_reports = collect;
}

std::vector<std::string> take_reports() {
  const Lock lock(machine().mutex);
  return std::exchange(machine().reports, {});
}

Counts counts() {
  const Lock lock(machine().mutex);
  return machine().counts;
}

void print_summary() {
  const Counts c = counts();
  fmt::print(
      stderr,
      "simulated GPU, process {} ({}): launches {}; waits of the host for "
      "items {}, "
      "copies {}, events {}, streams {}, devices {}; event queries {}; events "
      "made {}, recorded {} (of clocks {}), waited for by streams {}; copies "
      "from pinned "
      "memory {}, from pageable {}, to pinned {}, to pageable {}, between "
      "devices {}; allocations {} (peak {:.1f} MB), pinned {}; record_stream "
      "{}\n",
      ::getpid(), command_line(), c.launches, c.waits_for_items,
      c.waits_for_copies, c.waits_for_events, c.waits_for_streams,
      c.waits_for_devices, c.event_queries, c.events_made, c.events_recorded,
      c.events_of_clocks, c.waits_of_streams, c.pinned_to_device,
      c.pageable_to_device, c.device_to_pinned, c.device_to_pageable,
      c.between_devices, c.allocations, static_cast<double>(c.peak_bytes) / 1e6,
      c.pinned_allocations, c.record_streams);
}

}  // namespace sluice::simcuda
