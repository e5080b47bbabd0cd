#include "experiments/runs/preflight.h"

#include "experiments/runs/ranks.h"
#include "lib/base/temporary_folder.h"
#include "transport/links/tcp.h"

namespace sluice {

void check_temporary_files(const Experiment& experiment) {
  if (experiment.engine != "processes") return;
  const TemporaryFolder tried;
}

void check_meeting(const Experiment& experiment,
                   const std::optional<Rank>& rank) {
  if (experiment.engine != "processes" || !rank || rank->one_host) return;
  secret_of(*rank);
  check_tcp_host(host_of(*rank));
}

}  // namespace sluice
