#include "lib/engines/processes.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/engines/child_processes.h"
#include "lib/engines/control.h"

namespace sluice {
namespace {

/// How long workers have to end by themselves, and say why, after one failed
/// or after the last grant.
constexpr std::chrono::seconds kGrace(5);

}  // namespace

void run_processes(int blocks, const ProcessHooks& hooks,
                   Coordinator& coordinator, std::shared_ptr<Witness> witness) {
  ChildProcesses children;
  for (int block = 1; block <= blocks; ++block)
    children.start(fmt::format("block {}", block), hooks.command(block));
  ControlServer server(hooks.meet([&] { children.check(); }), coordinator,
                       std::move(witness));
  try {
    server.serve([&] { children.kill_after(kGrace); });
  } catch (const LinkError&) {
    children.wait(kGrace);  // a killed worker says more than a lost link
    throw;
  }
  children.wait(kGrace);
}

}  // namespace sluice
