// Synchronous SGD: the window of an update is that of all replicas. Chen et al.
// 2016, "Revisiting distributed synchronous SGD" (arXiv:1604.00981), equation 2
// without backup workers. Sharded: Rajbhandari et al. 2020, "ZeRO"
// (arXiv:1910.02054), stage 1.
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind all_reduce(Fields& /*fields*/);

ReplicaKind all_reduce(Fields& fields) {
  ReplicaKind kind{.exchange = {.what = Exchanged::gradients}};
  fields.key("shard", kind.exchange.shards,
             {.text = "each replica keeps the optimizer's state of its part of "
                      "the weights, updates that part, and is given the rest "
                      "by the others. Changes no result; saves memory and time "
                      "where the optimizer is dear"});
  return kind;
}

}  // namespace sluice
