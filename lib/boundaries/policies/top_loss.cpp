#include "lib/boundaries/policies/top_loss.h"

#include <utility>

#include "lib/base/error.h"
#include "lib/tensors/gradients.h"

namespace sluice {
namespace {

class TopLoss final : public Policy {
 public:
  explicit TopLoss(Loss loss) : loss_(std::move(loss)) {}

  Traits traits() const override { return {.from_above = false, .own = true}; }

  Signal signal(const Moment& moment) override {
    SLUICE_CHECK(moment.features.size() == 1,
                 "the last block has {} outputs; a loss takes one",
                 moment.features.size());
    const at::Tensor loss = loss_(moment.features[0], moment.labels);
    Signal signal;
    signal.gradients = gradients_at(moment.features, {loss});
    signal.loss = loss.detach();
    signal.logits = moment.features[0].detach();
    return signal;
  }

 private:
  Loss loss_;
};

}  // namespace

std::unique_ptr<Policy> make_top_loss(Loss loss) {
  return std::make_unique<TopLoss>(std::move(loss));
}

}  // namespace sluice
