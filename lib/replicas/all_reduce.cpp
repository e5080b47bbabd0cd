// Synchronous SGD: the window of an update is that of all replicas. Chen et al.
// 2016, "Revisiting distributed synchronous SGD" (arXiv:1604.00981), equation 2
// and, where a clock decides who counts, with backup workers. Sharded:
// Rajbhandari et al. 2020, "ZeRO" (arXiv:1910.02054), stage 1.
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind all_reduce(Fields& /*fields*/);

ReplicaKind all_reduce(Fields& fields) {
  ReplicaKind kind{.exchange = {.what = ExchangedTensors::gradients}};
  fields.key("shard", kind.exchange.shards,
             {.text = "each replica keeps the optimizer's state of its part of "
                      "the weights, updates that part, and is given the rest "
                      "by the others. Changes no result; saves memory and time "
                      "where the optimizer is dear"});
  fields.key("backup", kind.backup,
             {.text = "replicas on whose gradients a step doesn't wait, with "
                      "schedule = 'free': it is by the first count - backup "
                      "that come; those that come later are dropped, and their "
                      "replicas go on with the turn that is due",
              .min = 0,
              .max = 4095});
  kind.waits = true;
  kind.make_centre = [](const NamedTensors& parameters,
                        const CentreSite& site) {
    return summing_centre(parameters, site.options);
  };
  return kind;
}

}  // namespace sluice
