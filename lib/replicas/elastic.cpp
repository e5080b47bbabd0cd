// Replicas and a centre that pull at each other: EASGD, and EAMSGD where the
// optimizer has a momentum, which stays each replica's own. Zhang, Choromanska
// and LeCun 2015, "Deep learning with elastic averaging SGD"
// (arXiv:1412.6651), equations 5 and 6, synchronous: both sides move by the
// weights before the update. Every replica keeps the centre, from the same
// sums.
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind elastic(Fields& fields);

namespace {

class Elastic final : public ReplicaPolicy {
 public:
  Elastic(double beta, const NamedTensors& parameters) : beta_(beta) {
    for (const auto& [name, tensor] : parameters)
      centre_.emplace_back("centre." + name, tensor.detach().clone());
  }

  void begin(const Tensors& weights) override {
    for (std::size_t i = 0; i < centre_.size(); ++i)
      centre_[i].second.copy_(weights.at(i));
  }

  /// What pulls the replica, alpha = beta / N.
  Tensors combine(const Tensors& mine, const Tensors& sum, int members,
                  double /*rate*/) override {
    SLUICE_CHECK(sum.size() == centre_.size(), "{} tensors of {} at the centre",
                 sum.size(), centre_.size());
    Tensors pulls;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      at::Tensor& centre = centre_[i].second;
      pulls.push_back((centre - mine[i]) * (beta_ / members));
      centre.add_((sum[i] / members - centre) * beta_);
    }
    return pulls;
  }

  Tensors consensus(const Tensors& /*sum*/, int /*members*/) const override {
    return values_of(centre_);
  }

  NamedTensors state() const override { return centre_; }

 private:
  const double beta_;
  NamedTensors centre_;
};

}  // namespace

ReplicaKind elastic(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = Exchanged::old_weights, .agrees = true}};
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
  kind.make = [beta](const NamedTensors& parameters) {
    return std::make_unique<Elastic>(beta, parameters);
  };
  return kind;
}

}  // namespace sluice
