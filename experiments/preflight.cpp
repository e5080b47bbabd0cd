#include "experiments/preflight.h"

#include "experiments/ranks/ranks.h"
#include "lib/base/temporary_folder.h"
#include "transport/tcp.h"

namespace sluice {

void check_meeting(const Experiment& experiment,
                   const std::optional<Rank>& rank) {
  if (experiment.engine != "processes") return;
  const TemporaryFolder tried;
  if (!rank || rank->one_host) return;
  secret_of(*rank);
  check_tcp_host(host_of(*rank));
}

}  // namespace sluice
