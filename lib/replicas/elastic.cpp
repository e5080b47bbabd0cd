// Replicas and a centre that pull at each other: EASGD, and EAMSGD where the
// optimizer has a momentum, which stays each replica's own. Zhang, Choromanska
// and LeCun 2015, "Deep learning with elastic averaging SGD"
// (arXiv:1412.6651), equations 5 and 6, synchronous: both sides move by the
// weights before the update. Or its asynchronous form, algorithm 1: replicas
// come to the centre one after the other, in lockstep round robin, in a free
// schedule when they are ready (centre_rules.h). In lockstep every replica
// keeps the centre, from the same sums or weights.
#include <memory>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind elastic(Fields& fields);

namespace {

class Elastic : public ReplicaPolicy {
 public:
  Elastic(double beta, const NamedTensors& parameters) : beta_(beta) {
    for (const auto& [name, tensor] : parameters)
      centre_.emplace_back("centre." + name, tensor.detach().clone());
  }

  void begin(const Tensors& weights) override {
    for (std::size_t i = 0; i < centre_.size(); ++i)
      centre_[i].second.copy_(weights.at(i));
  }

  /// Pulls the replica by alpha = beta / N.
  Tensors combine(const Tensors& mine, Mixture mixture) override {
    const Tensors& mean = mixture.mean;
    const double alpha = beta_ / static_cast<double>(mixture.parts);
    SLUICE_CHECK(mean.size() == centre_.size(),
                 "{} tensors of {} at the centre", mean.size(), centre_.size());
    Tensors pulls;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      at::Tensor& centre = centre_[i].second;
      pulls.push_back((centre - mine[i]) * alpha);
      centre.sub_((centre - mean[i]) * beta_);
    }
    return pulls;
  }

  Tensors consensus(const Tensors& /*mean*/) const override {
    return values_of(centre_);
  }

  NamedTensors state() const override { return centre_; }

 protected:
  double beta() const { return beta_; }
  NamedTensors& centre() { return centre_; }

 private:
  const double beta_;
  NamedTensors centre_;
};

/// Pulls in turn: one replica after the other, each by the centre as it then
/// is.
class ElasticInTurn final : public Elastic {
 public:
  using Elastic::Elastic;

  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    const double alpha = beta() / static_cast<double>(mixture.published.size());
    Tensors own;
    for (std::size_t r = 0; r < mixture.published.size(); ++r)
      for (std::size_t i = 0; i < centre().size(); ++i) {
        at::Tensor& there = centre()[i].second;
        const at::Tensor pull = (there - mixture.published[r].at(i)) * alpha;
        there.sub_(pull);
        if (r == mixture.own) own.push_back(pull);
      }
    return own;
  }
};

}  // namespace

ReplicaKind elastic(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::old_weights, .agrees = true}};
  double beta = 0.9;
  fields.key("every", kind.exchange.every,
             {.text = "updates between two pulls",
              .unit = "updates",
              .min = 1,
              .max = 1e12});
  fields.key("beta", beta,
             {.text = "part of the way to the replicas' mean that the centre "
                      "goes; a replica goes beta / replicas.count of its way "
                      "to the centre",
              .min = 0,
              .max = 1e3});
  bool is_one_by_one = false;
  fields.key("one_by_one", is_one_by_one,
             {.text = "the replicas come to the centre one after the other, in "
                      "lockstep in their order, and find it where those before "
                      "have left it: asynchronous EASGD"});
  if (is_one_by_one) {
    kind.exchange.graph.shape = PeerShape::complete;
    kind.make_centre = [beta](const NamedTensors& parameters,
                              const CentreSite& site) {
      return elastic_centre(parameters,
                            beta / static_cast<double>(site.members));
    };
  }
  kind.make = [beta, is_one_by_one](
                  const NamedTensors& parameters,
                  const ReplicaSite& /*site*/) -> ReplicaRules {
    if (is_one_by_one)
      return {.policy = std::make_shared<ElasticInTurn>(beta, parameters)};
    return {.policy = std::make_shared<Elastic>(beta, parameters)};
  };
  return kind;
}

}  // namespace sluice
