#pragma once

#include <cstdint>
#include <memory>

#include "lib/replicas/centre/centre_rule.h"
#include "lib/replicas/delayed_nesterov.h"
#include "lib/schedules/plan/peers.h"
#include "lib/tensors/tensors.h"
#include "lib/updates/transform.h"

namespace sluice {

class ReplicaPolicy;

// Rules of centres for replicas that come when they are ready. Each rule is
// made for the parameters of a block, of which it takes names, sizes and
// strides.

/// Downpour SGD (Dean et al. 2012, section 4.1, n_push = n_fetch = 1): a push
/// is a gradient, and a step of the server's optimizer; the replica takes the
/// weights after it. How many steps came between its last pull and this push is
/// added to the staleness that a correction goes by, and the weights of that
/// pull are those of the forward: DC-ASGD (Zheng et al. 2017, arXiv:1609.08326,
/// algorithms 1 and 2), staleness-aware SGD (Zhang et al. 2016,
/// arXiv:1511.05950, equation 6).
std::unique_ptr<CentreRule> gradient_centre(const NamedTensors& parameters,
                                            const UpdateOptions& options,
                                            int members);

/// n-softsync (Zhang et al. 2016, arXiv:1511.05950, section 3): a step is by
/// the mean of so many gradients, whoever brings them, each divided by its
/// staleness in steps, if that is above 1; a replica takes the weights that
/// there are. gradients: members / n.
std::unique_ptr<CentreRule> softsync_centre(const NamedTensors& parameters,
                                            const UpdateOptions& options,
                                            int members,
                                            std::int64_t gradients);

/// A push is the replica's weights; the centre adds that part of how far they
/// are from those that the replica took last, and gives what comes of it:
/// Downpour with several updates to a push; with part = 1 / updates accumulated
/// gradient normalization (Hermans et al. 2017, arXiv:1710.02368, algorithm 1).
/// Or it steps by that: asynchronous DiLoCo with delayed Nesterov momentum (Liu
/// et al. 2024, arXiv:2401.09135).
std::unique_ptr<CentreRule> movement_centre(const NamedTensors& parameters,
                                            int members, double part,
                                            const PushedStep& step = {});

/// A push is the replica's weights; replica and centre move by alpha of what is
/// between them, and the replica takes that for its next update: asynchronous
/// EASGD (Zhang, Choromanska and LeCun 2015, arXiv:1412.6651, algorithm 1).
std::unique_ptr<CentreRule> elastic_centre(const NamedTensors& parameters,
                                           double alpha);

/// AD-PSGD (Lian et al. 2018, arXiv:1710.06952, algorithm 1): a push is the
/// replica's weights after an update; its weights and those of a neighbour that
/// is drawn become their mean, whatever that one does meanwhile, and the update
/// is added to its own (`before`; else the mean is of what it has made). Each
/// finds what others have made of its weights when it comes next.
std::unique_ptr<CentreRule> pair_centre(const NamedTensors& parameters,
                                        int members, const PeerGraph& graph,
                                        bool before);

/// Nearest neighbours training (Viviani et al. 2019): a push is a gradient, and
/// a step of the replica and of each of its neighbours, with optimizers of
/// their own; the replica takes its weights after it. When adopt_every batches
/// have come since the last time, all go on with the weights of the replica
/// whose batches had the lowest mean loss; 0: never.
std::unique_ptr<CentreRule> neighbour_centre(const NamedTensors& parameters,
                                             const UpdateOptions& options,
                                             int members,
                                             const PeerGraph& graph,
                                             std::int64_t adopt_every);

// Where replicas wait for others (Quorum):

/// Synchronous SGD of those who have come, and with backup workers (Chen et al.
/// 2016, arXiv:1604.00981): pushes are gradients, and a step is by their mean.
std::unique_ptr<CentreRule> summing_centre(const NamedTensors& parameters,
                                           const UpdateOptions& options);

/// Pushes are the replicas' weights, of which policy.combine() makes the next
/// ones; of a replica that began before the last merge, how far it has moved
/// since then. Each counts by its updates between two pushes, since all
/// have as many samples to an update: the syncer of decoupled DiLoCo
/// (arXiv:2604.21428).
std::unique_ptr<CentreRule> averaging_centre(
    const NamedTensors& parameters, int members,
    std::unique_ptr<ReplicaPolicy> policy);

}  // namespace sluice
