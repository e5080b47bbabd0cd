#pragma once

#include <memory>

#include "lib/replicas/centre/centre_rule.h"
#include "lib/replicas/replica_policy.h"
#include "lib/tensors/tensors.h"

namespace sluice {

// AD-PSGD (Lian et al. 2018, arXiv:1710.06952, algorithm 1 and section 3) over
// the links of the replicas themselves: those of the one side of a bipartite
// graph visit those of the other, the hosts, whose centres answer at once,
// whatever they do meanwhile. Both then have the mean of their weights. None
// visits a visitor, so that no circle can wait. A host visits its own centre:
// it brings how far its updates have moved it, and takes what others have made
// of its weights meanwhile.

/// The centre beside a host, with its weights.
std::unique_ptr<CentreRule> partner_centre(const NamedTensors& parameters,
                                           int host);

/// What a replica brings and takes. before: the mean is of weights before the
/// updates since its last visit, which are then added; else of those after
/// them.
std::shared_ptr<ReplicaPolicy> partner_policy(const NamedTensors& parameters,
                                              bool is_host, bool before);

}  // namespace sluice
