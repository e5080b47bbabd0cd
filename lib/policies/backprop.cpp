// Back-propagation across the boundary: the gradient that arrives from above
// is the signal.
#include "lib/policy.h"

namespace sluice {
namespace {

class Backprop final : public Policy {
 public:
  Traits traits() const override { return {}; }

  Signal signal(const Moment& moment) override {
    Signal signal;
    signal.gradients = moment.from_above;
    return signal;
  }
};

}  // namespace

MakePolicy configure_backprop(Fields&, std::span<const HeadRow>) {
  return [](const Site&) { return std::make_unique<Backprop>(); };
}

}  // namespace sluice
