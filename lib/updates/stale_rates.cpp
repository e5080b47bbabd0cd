// Learning rates by the staleness tau of what is applied, in updates:
// PipeMare's T1 (Yang et al., MLSys 2021, arXiv:1910.05124), rate / tau^p with
// p = 1 - min(turn / anneal_turns, 1) and tau at least 1, in the form of
// AsyncPP's code; staleness-aware SGD (Zhang et al., IJCAI 2016,
// arXiv:1511.05950), rate / max(1, tau); DynSGD (Jiang et al., SIGMOD 2017),
// rate / (1 + tau).
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "lib/updates/corrections.h"
#include "lib/updates/transform.h"

namespace sluice {
namespace {

/// What the rate is divided by at a staleness tau above 0, in a turn.
using Divisor = std::function<double(double tau, std::int64_t turn)>;

class StaleRate final : public Transform {
 public:
  explicit StaleRate(Divisor divisor) : divisor_(std::move(divisor)) {}

  void apply(Tensors& /*gradients*/, UpdateInfo& info) override {
    if (info.in_updates.sum == 0) return;
    info.rate /= divisor_(info.in_updates.mean_over(info.batches), info.turn);
  }

 private:
  Divisor divisor_;
};

MakeCorrection dividing_by(const Divisor& divisor) {
  return [divisor](const NamedTensors&) {
    return std::make_unique<StaleRate>(divisor);
  };
}

}  // namespace

MakeCorrection read_pipemare(Fields& fields, OptimizerOptions& /*options*/) {
  std::int64_t anneal_turns = 1000;
  fields.key(
      "anneal_turns", anneal_turns,
      {.text = "turns after which the rate is the schedule's again: until then "
               "it is divided by staleness^(1 - turn / anneal_turns)",
       .unit = "turns",
       .min = 1,
       .max = 1e12});
  return dividing_by([anneal_turns](double tau, std::int64_t turn) {
    const double passed =
        static_cast<double>(turn) / static_cast<double>(anneal_turns);
    return std::pow(std::max(1.0, tau), 1 - std::min(passed, 1.0));
  });
}

MakeCorrection read_staleness_aware(Fields& /*fields*/,
                                    OptimizerOptions& /*options*/) {
  return dividing_by(
      [](double tau, std::int64_t /*turn*/) { return std::max(1.0, tau); });
}

MakeCorrection read_dynsgd(Fields& /*fields*/, OptimizerOptions& /*options*/) {
  return dividing_by([](double tau, std::int64_t /*turn*/) { return 1 + tau; });
}

}  // namespace sluice
