// Nearest neighbours training (Viviani et al. 2019, "Deep learning at scale",
// PDP, doi:10.1109/EMPDP.2019.8671552): a replica steps by its own gradient and
// by those of its neighbours, each a step of its own optimizer; weights are not
// averaged. In lockstep: gradients of the same turn, in the order of the
// replicas; in a free schedule as they arrive (neighbour_centre.cpp). After
// some epochs all go on with the weights of the one whose training loss has
// been the lowest since the last time (in FAST, that of the highest validation
// accuracy); each keeps its optimizer's state. Until then, where not all are
// neighbours, they run apart: with plain SGD and curvature h a difference v of
// the replicas becomes (1 - lr h (I + A)) v, A the adjacency of the graph, and
// I + A has eigenvalues below 0 unless the graph is complete; of a ring they
// are 1 + 2 cos q.
#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind neighbours(Fields& fields);

namespace {

/// No policy: the mean is evaluated, and nothing else is done with weights.
ReplicaRules make_neighbours(const NamedTensors& /*parameters*/,
                             const ReplicaSite& /*site*/) {
  return {.policy = std::make_shared<ReplicaPolicy>(),
          .steps = std::make_shared<StepRule>()};
}

class NeighbourAdoption final : public ReplicaPolicy, public AdoptionRule {
 public:
  explicit NeighbourAdoption(const NamedTensors& parameters) {
    SLUICE_CHECK(!parameters.empty(), "replicas without a weight");
    const auto& [name, first] = parameters.front();
    name_ = name;
    loss_ = at::zeros({1}, first.options().dtype(at::kDouble));
  }

  void begin(const Tensors& /*weights*/) override { loss_.zero_(); }
  void lost(const at::Tensor& loss, double share) override {
    loss_.add_(loss.to(loss_.options()), share);
  }
  at::Tensor badness() const override { return loss_; }
  void adopted() override { loss_.zero_(); }
  NamedTensors state() const override { return {{"loss_of." + name_, loss_}}; }

 private:
  std::string name_;  // of the first parameter, by which a cut finds it
  at::Tensor loss_;   // [1]: the sum over the turns
};

ReplicaRules make_adopting(const NamedTensors& parameters,
                           const ReplicaSite& /*site*/) {
  const auto rule = std::make_shared<NeighbourAdoption>(parameters);
  return {
      .policy = rule, .steps = std::make_shared<StepRule>(), .adoption = rule};
}

}  // namespace

ReplicaKind neighbours(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::gradients, .agrees = true}};
  PeerGraph& graph = kind.exchange.graph;
  graph.shape = PeerShape::ring;
  fields.key("graph", graph.shape,
             {{std::string(shape_name(PeerShape::ring)), PeerShape::ring},
              {std::string(shape_name(PeerShape::torus)), PeerShape::torus}},
             {.text = "whose gradients a replica applies beside its own: those "
                      "of two neighbours on a ring, one where replicas.count "
                      "is 2; or of four on a torus. Of more than three on a "
                      "ring, and on a torus, replicas run apart at any "
                      "learning rate, until adopt_every has them meet"});
  fields.key(
      "adopt_every", kind.adopt_every,
      {.text = "epochs after which all replicas go on with the weights "
               "of the one whose training loss was the lowest since the "
               "last time; each keeps its optimizer's state. In lockstep "
               "several blocks want policy = 'backprop', with schedule "
               "= 'free' there is one. 0: never",
       .unit = "epochs",
       .min = 0,
       .max = 1e9});
  kind.make = kind.adopt_every > 0 ? make_adopting : make_neighbours;
  kind.make_centre = [shape = graph.shape](const NamedTensors& parameters,
                                           const CentreSite& site) {
    return neighbour_centre(parameters, site.options, site.members,
                            {.shape = shape}, site.adopt_every);
  };
  return kind;
}

}  // namespace sluice
