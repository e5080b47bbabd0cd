#include "tests/simcuda/contexts.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/report.h"

namespace sluice::simcuda {
namespace {

std::size_t here() {
  return static_cast<std::size_t>(current_device());
}

bool is_any_asked(const Contexts& contexts) {
  return std::any_of(contexts.asked.begin(), contexts.asked.end(),
                     [](bool asked) { return asked; });
}

void report_start(std::string_view call, std::size_t device) {
  report(fmt::format(
      "{} starts CUDA on device {}, which is current, but nobody has asked "
      "for: a device guard is missing",
      call, device));
}

}  // namespace

void ask_for(int device) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto asked = static_cast<std::size_t>(device);
  m.contexts.asked.at(asked) = true;
  m.contexts.started.at(asked).clear();
  for (std::size_t other = 0; other < m.contexts.started.size(); ++other) {
    const std::string call = std::exchange(m.contexts.started[other], {});
    if (!call.empty()) report_start(call, other);
  }
}

void call_on_current(std::string_view call) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (m.contexts.asked.at(here())) return;
  if (is_any_asked(m.contexts))
    report_start(call, here());
  else
    m.contexts.started.at(here()) = call;
}

void call_on_any(std::string_view call) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  if (!is_any_asked(m.contexts)) m.contexts.started.at(here()) = call;
}

void check_works(int device) {
  const Machine& m = machine();
  TORCH_CHECK(!m.broken.at(static_cast<std::size_t>(device)),
              "simulated GPU: an illegal memory access was encountered on "
              "device ",
              device);
}

void forget_contexts() {
  const Lock lock(machine().mutex);
  machine().contexts = {};
}

void break_device(int device, bool broken) {
  const Lock lock(machine().mutex);
  machine().broken.at(static_cast<std::size_t>(device)) = broken;
}

}  // namespace sluice::simcuda
