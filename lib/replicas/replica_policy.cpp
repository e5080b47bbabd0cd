#include "lib/replicas/replica_policy.h"

#include <ATen/ATen.h>

#include "lib/base/added_rows.h"
#include "lib/base/error.h"

namespace sluice {

ReplicaKind all_reduce(Fields& fields);
ReplicaKind average(Fields& fields);
ReplicaKind elastic(Fields& fields);
ReplicaKind gossip(Fields& fields);
ReplicaKind neighbours(Fields& fields);
ReplicaKind server(Fields& fields);
ReplicaKind shared(Fields& fields);

Tensors ReplicaPolicy::offer(const Tensors& mine) {
  Tensors copies;
  for (const at::Tensor& tensor : mine)
    copies.push_back(tensor.detach().clone());
  return copies;
}

Tensors ReplicaPolicy::movement(const Tensors& /*mine*/) {
  throw InternalError("a policy of replicas that gives no movements");
}

Tensors ReplicaPolicy::combine(const Tensors& /*mine*/, Mixture /*mixture*/) {
  throw InternalError("a policy of replicas that exchanges no weights");
}

bool clips_own(const OptimizerOptions& options, ExchangedTensors what) {
  return what == ExchangedTensors::gradients && options.clip_norm > 0 &&
         options.clip_at == ClipPlace::replica;
}

Quorum quorum_of(const ReplicaKind& kind, int members) {
  if (!kind.waits) return {};
  if (kind.exchange.what == ExchangedTensors::gradients)
    return {.least = members - static_cast<int>(kind.backup),
            .drops_late = kind.backup > 0};
  return {.least = kind.quorum == 0 ? members : static_cast<int>(kind.quorum),
          .grace = kind.grace.value_or(0),
          .follows_arrivals = !kind.grace};
}

std::span<const ReplicaPolicyRow> replica_policies() {
  static const ReplicaPolicyRow kPolicyRows[] = {
      {"all_reduce",
       "every update applies the mean of the replicas' gradients: synchronous "
       "SGD (Chen et al. 2016)",
       all_reduce},
      {"average",
       "replicas train alone and average their weights from time to time; an "
       "outer optimizer may take the mean for a step: local SGD, BMUF, SlowMo, "
       "DiLoCo",
       average},
      {"elastic",
       "replicas are pulled to a centre, and the centre to them: EASGD (Zhang "
       "et "
       "al. 2015)",
       elastic},
      {"gossip",
       "replicas mix their weights with those of their neighbours in a graph, "
       "or "
       "of one partner: D-PSGD, AD-PSGD, GossipGraD, stochastic gradient push",
       gossip},
      {"neighbours",
       "each replica also steps by the gradients of its neighbours, as if they "
       "were its own: nearest neighbours training (Viviani et al. 2019)",
       neighbours},
      {"server",
       "a server applies the replicas' gradients one after the other, and each "
       "replica goes on with the weights after its own: Downpour SGD and what "
       "corrects its staleness",
       server},
      {"shared",
       "replicas have one copy of the weights in memory, which each reads and "
       "adds to whenever it likes: Hogwild! (Niu et al. 2011), HogBatch",
       shared},
  };
  return with_added<MakeReplicas>(kPolicyRows);
}

}  // namespace sluice
