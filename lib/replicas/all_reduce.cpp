// Synchronous SGD: the window of an update is that of all replicas. Chen et al.
// 2016, "Revisiting distributed synchronous SGD" (arXiv:1604.00981), equation 2
// without backup workers.
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind all_reduce(Fields& /*fields*/);

ReplicaKind all_reduce(Fields& /*fields*/) {
  return {.exchange = {.what = Exchanged::gradients}};
}

}  // namespace sluice
