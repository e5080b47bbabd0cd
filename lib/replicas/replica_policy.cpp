#include "lib/replicas/replica_policy.h"

#include <ATen/ATen.h>

#include "lib/base/added_rows.h"

namespace sluice {

ReplicaKind all_reduce(Fields& fields);
ReplicaKind average(Fields& fields);
ReplicaKind elastic(Fields& fields);

Tensors ReplicaPolicy::consensus(const Tensors& sum, int members) const {
  Tensors mean;
  for (const at::Tensor& each : sum) mean.push_back(each / members);
  return mean;
}

namespace {

constexpr ReplicaPolicyRow kRows[] = {
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
     "replicas are pulled to a centre, and the centre to them: EASGD (Zhang et "
     "al. 2015)",
     elastic},
};

}  // namespace

std::span<const ReplicaPolicyRow> replica_policies() {
  return with_added<MakeReplicas>(kRows);
}

}  // namespace sluice
