// Spike compensation (Kosson et al., MLSys 2021, arXiv:2003.11666): a gradient
// that is D updates late has missed D steps along its velocity, and takes them
// at once: v = m v + g, w -= rate (a v + b g), a = m^D, b = (1 - m^D)/(1 - m).
// Were gradients independent of w, the weights would be at all times those of
// SGD with momentum that got the same gradients in time. D = 1 is Nesterov's
// momentum.
#include <cmath>
#include <memory>

#include "lib/updates/corrections.h"
#include "lib/updates/transform.h"

namespace sluice {
namespace {

class SpikeCompensation final : public Transform {
 public:
  explicit SpikeCompensation(double momentum) : momentum_(momentum) {}

  void apply(Tensors& /*gradients*/, UpdateInfo& info) override {
    if (info.in_updates.sum == 0) return;
    const double delay = info.in_updates.mean_over(info.batches);
    const double kept = std::pow(momentum_, delay);
    info.mix = {
        .velocity = kept,
        .gradient = momentum_ == 1 ? delay : (1 - kept) / (1 - momentum_)};
  }

 private:
  double momentum_;
};

}  // namespace

MakeCorrection read_spike_compensation(Fields& fields,
                                       OptimizerOptions& options) {
  if (options.name != "sgd" || options.momentum <= 0)
    fields.reject("name",
                  "'spike_compensation' weighs a velocity, which only "
                  "optimizer.name = 'sgd' with a momentum above 0 has");
  if (options.nesterov)
    fields.reject("name",
                  "'spike_compensation' looks ahead as far as the delay wants: "
                  "leave out optimizer.nesterov, which it is at a delay of 1");
  options.wants_whole = true;
  return [momentum = options.momentum](const NamedTensors&) {
    return std::make_unique<SpikeCompensation>(momentum);
  };
}

}  // namespace sluice
