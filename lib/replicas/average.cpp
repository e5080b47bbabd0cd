// Replicas that train alone and average their weights: model averaging
// (Zinkevich et al. 2010; Su and Chen 2015, arXiv:1507.01239), local SGD (Stich
// 2019, arXiv:1805.09767). With an outer optimizer, whose gradient is how far
// the mean has moved from where all began, turned round: BMUF (Chen and Huo
// 2016, doi:10.1109/ICASSP.2016.7472805, equations 3 to 6, of which the
// Nesterov form is SGD's), DiLoCo (Douillard et al. 2023, arXiv:2311.08105,
// algorithm 1), SlowMo (Wang et al. 2020, arXiv:1910.00643, algorithm 1, where
// the outer momentum is in units of gradients). In a free schedule an average
// need not wait for all (decoupled DiLoCo, arXiv:2604.21428): centre_rules.h.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind average(Fields& fields);

namespace {

/// Seconds, or nothing: the grace follows the arrivals.
std::optional<double> grace_of(Fields& fields) {
  constexpr double kMost = 1e6;
  ConfigNode written = {.value = 0.0};
  fields.key("grace", written, "number | \"auto\"",
             {.text = "how long it waits for more when the quorum is there, in "
                      "virtual time where the engine is virtual; or \"auto\": "
                      "until a replica has had as long as most take",
              .unit = "s"});
  if (written.value == ConfigNode::Value(std::string("auto")))
    return std::nullopt;
  std::optional<double> seconds;
  if (const auto* number = std::get_if<double>(&written.value))
    seconds = *number;
  if (const auto* number = std::get_if<std::int64_t>(&written.value))
    seconds = static_cast<double>(*number);
  if (!seconds || *seconds < 0 || *seconds > kMost)
    fields.reject("grace", fmt::format("expected seconds from 0 to {}, or "
                                       "'auto', got {}",
                                       kMost, written.literal()));
  return seconds;
}

struct OuterStep {
  double learning_rate = 1;
  double momentum = 0;
  bool nesterov = false;
  bool per_rate = false;

  bool is_plain() const { return learning_rate == 1 && momentum == 0; }
};

class Average final : public ReplicaPolicy {
 public:
  Average(OuterStep outer, const NamedTensors& parameters) : outer_(outer) {
    if (outer_.is_plain()) return;
    for (const auto& [name, tensor] : parameters) {
      start_.emplace_back("outer.start." + name, tensor.detach().clone());
      momentum_.emplace_back("outer.momentum." + name,
                             at::zeros_like(tensor.detach()));
    }
  }

  void begin(const Tensors& weights) override {
    for (std::size_t i = 0; i < start_.size(); ++i)
      start_[i].second.copy_(weights.at(i));
  }

  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    Tensors& mean = mixture.mean;
    if (outer_.is_plain()) return std::move(mean);
    SLUICE_CHECK(mean.size() == start_.size(), "an average of {} tensors of {}",
                 mean.size(), start_.size());
    const double unit = outer_.per_rate ? mixture.rate : 1;
    for (std::size_t i = 0; i < mean.size(); ++i)
      step(start_[i].second, momentum_[i].second, mean[i], unit);
    Tensors weights;
    for (const auto& [name, tensor] : start_) weights.push_back(tensor.clone());
    return weights;
  }

  NamedTensors state() const override {
    NamedTensors all = start_;
    all.insert(all.end(), momentum_.begin(), momentum_.end());
    return all;
  }

 private:
  /// A step of SGD with momentum, as PyTorch does it.
  void step(at::Tensor& start, at::Tensor& momentum, const at::Tensor& mean,
            double unit) const {
    if (unit == 0) return;  // nothing has moved, whatever the unit
    const at::Tensor gradient = (start - mean) / unit;
    momentum.mul_(outer_.momentum).add_(gradient);
    const at::Tensor along =
        outer_.nesterov ? gradient + outer_.momentum * momentum : momentum;
    start.sub_(along * (outer_.learning_rate * unit));
  }

  const OuterStep outer_;
  NamedTensors start_;     // where all replicas began, or met last
  NamedTensors momentum_;  // of the outer optimizer
};

}  // namespace

ReplicaKind average(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::weights, .agrees = true}};
  OuterStep outer;
  fields.key("every", kind.exchange.every,
             {.text = "updates between two averages; one more than the run "
                      "has: only its end is averaged",
              .unit = "updates",
              .min = 1,
              .max = 1e12});
  fields.key("each_before", kind.exchange.each_before,
             {.text = "before this turn an average follows every update, "
                      "`every` is of those after it (post-local SGD)",
              .unit = "turns",
              .min = 0,
              .max = 1e12});
  fields.key("stagger", kind.stagger,
             {.text = "blocks average at different updates, evenly spread "
                      "(streaming DiLoCo's fragments)"});
  fields.key("outer_lr", outer.learning_rate,
             {.text = "rate of the outer optimizer, SGD, whose step the mean "
                      "is; 1 without momentum: the mean itself",
              .min = 0,
              .max = 1e6});
  fields.key("outer_momentum", outer.momentum,
             {.text = "its momentum; of BMUF 1 - 1 / replicas.count",
              .min = 0,
              .max = 1});
  fields.key("outer_nesterov", outer.nesterov,
             {.text = "whether that is Nesterov's"});
  fields.key("outer_per_rate", outer.per_rate,
             {.text = "its momentum adds up movements divided by the learning "
                      "rate (SlowMo); matters where that changes"});
  fields.key("quorum", kind.quorum,
             {.text = "replicas that an average waits for, with schedule = "
                      "'free': what comes later is in the next one (decoupled "
                      "DiLoCo); 0: all",
              .min = 0,
              .max = 4096});
  kind.grace = grace_of(fields);
  if (kind.grace != 0.0 && kind.quorum == 0)
    fields.reject("grace",
                  "is of a quorum, and an average waits for all: set "
                  "quorum, or leave grace out");
  kind.waits = true;
  kind.make_centre = [outer](const NamedTensors& parameters,
                             const CentreSite& site) {
    return averaging_centre(parameters, site.members,
                            std::make_unique<Average>(outer, parameters));
  };
  kind.make = [outer](const NamedTensors& parameters,
                      const ReplicaSite& /*site*/) -> ReplicaRules {
    return {.policy = std::make_shared<Average>(outer, parameters)};
  };
  return kind;
}

}  // namespace sluice
