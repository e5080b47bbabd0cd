#include "lib/boundaries/policies/top_loss.h"

#include <utility>

#include "lib/base/error.h"
#include "lib/tensors/gradients.h"

namespace sluice {
namespace {

class TopLoss final : public Lower {
 public:
  explicit TopLoss(Loss loss) : loss_(std::move(loss)) {}

  Traits traits() const override { return {.from_above = false, .own = true}; }

  Signal signal(const BatchContext& context) override {
    SLUICE_CHECK(context.features.size() == 1,
                 "the last block has {} outputs; a loss takes one",
                 context.features.size());
    const at::Tensor loss = loss_(context.features[0], context.labels);
    Signal signal;
    signal.gradients =
        gradients_at(context.features, {by_share(loss, context)});
    signal.loss = loss.detach();
    signal.logits = context.features[0].detach();
    return signal;
  }

  bool depends_on_batch_alone() const override { return true; }

 private:
  Loss loss_;
};

}  // namespace

std::unique_ptr<Lower> make_top_loss(Loss loss) {
  return std::make_unique<TopLoss>(std::move(loss));
}

}  // namespace sluice
