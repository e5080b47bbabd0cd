// Nearest neighbours training (Viviani et al. 2019, "Deep learning at scale",
// PDP, doi:10.1109/EMPDP.2019.8671552): a replica steps by its own gradient and
// by those of its neighbours, each a step of its own optimizer, and nobody
// averages weights. Here in lockstep: gradients of the same turn, in the order
// of the replicas.
#include <memory>
#include <string>

#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind neighbours(Fields& fields);

namespace {

/// What is evaluated is the mean; there is nothing else to do with weights.
std::unique_ptr<ReplicaPolicy> make_neighbours(
    const NamedTensors& /*parameters*/) {
  return std::make_unique<ReplicaPolicy>();
}

}  // namespace

ReplicaKind neighbours(Fields& fields) {
  ReplicaKind kind{.exchange = {.what = Exchanged::gradients, .agrees = true}};
  PeerGraph& graph = kind.exchange.graph;
  graph.shape = PeerShape::ring;
  fields.key("graph", graph.shape,
             {{std::string(shape_name(PeerShape::ring)), PeerShape::ring},
              {std::string(shape_name(PeerShape::torus)), PeerShape::torus}},
             {.text = "whose gradients a replica applies beside its own: those "
                      "of two neighbours on a ring, one where replicas.count "
                      "is 2; or of four on a torus"});
  kind.make = make_neighbours;
  return kind;
}

}  // namespace sluice
