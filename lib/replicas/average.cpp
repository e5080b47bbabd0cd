// Replicas that train alone and average their weights: model averaging
// (Zinkevich et al. 2010; Su and Chen 2015, arXiv:1507.01239), local SGD (Stich
// 2019, arXiv:1805.09767). With an outer optimizer, whose gradient is how far
// the mean has moved from where all began, turned round: BMUF (Chen and Huo
// 2016, doi:10.1109/ICASSP.2016.7472805, equations 3 to 6, of which the
// Nesterov form is SGD's), DiLoCo (Douillard et al. 2023, arXiv:2311.08105,
// algorithm 1), SlowMo (Wang et al. 2020, arXiv:1910.00643, algorithm 1, where
// the outer momentum is in units of gradients). Weights may travel while
// updates go on, and be mixed with a replica's own: streaming DiLoCo (Douillard
// et al. 2025, arXiv:2501.18512). Or
// movements are sent sparse, with error feedback: SparseLoCo (Sarfi et al.
// 2025, arXiv:2508.15706, without its 2-bit values). In a free
// schedule an average need not wait for all (decoupled DiLoCo,
// arXiv:2604.21428): centre_rules.h.
#include <cstddef>
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
#include "lib/replicas/every.h"
#include "lib/replicas/outer_step.h"
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

struct AverageOptions {
  OuterStep outer = {};
  bool per_rate = false;     ///< the momentum is in units of gradients
  std::int64_t overlap = 0;  ///< updates for which weights travel
  double mixing = 0;         ///< part of a replica's own weights that it keeps
};

/// Where all replicas began, or met last, it keeps where the outer optimizer
/// needs it, or a movement is measured from there, or weights travel.
class Average final : public ReplicaPolicy {
 public:
  Average(const AverageOptions& options, const NamedTensors& parameters,
          bool gives_movements)
      : options_(options) {
    const bool is_plain = options_.outer.is_plain();
    if (is_plain && options_.overlap == 0 && !gives_movements) return;
    for (const auto& [name, tensor] : parameters) {
      start_.emplace_back("outer.start." + name, tensor.detach().clone());
      if (!is_plain)
        momentum_.emplace_back("outer.momentum." + name,
                               at::zeros_like(tensor.detach()));
    }
  }

  void begin(const Tensors& weights) override {
    for (std::size_t i = 0; i < start_.size(); ++i)
      start_[i].second.copy_(weights.at(i));
    travelled_.fill_(kNothing);
  }

  Tensors offer(const Tensors& mine) override {
    travelled_.fill_(0);
    return ReplicaPolicy::offer(mine);
  }

  Tensors movement(const Tensors& mine) override {
    travelled_.fill_(0);
    Tensors moved;
    for (std::size_t i = 0; i < start_.size(); ++i)
      moved.push_back(start_[i].second - mine.at(i));
    return moved;
  }

  Tensors combine(const Tensors& mine, Mixture mixture) override {
    if (start_.empty()) return mixed(std::move(mixture.mean), mine);
    const bool is_measured = mixture.mean.empty();
    const Tensors& given = is_measured ? mixture.moved : mixture.mean;
    SLUICE_CHECK(given.size() == start_.size(),
                 "an average of {} tensors of {}", given.size(), start_.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const at::Tensor& start = start_[i].second;
      if (!momentum_.empty())
        step(i, is_measured ? given[i] : start - given[i], mixture.rate);
      else if (is_measured)
        start.sub_(given[i]);
      else
        start.copy_(given[i]);
    }
    if (options_.overlap > 0) return {};
    return mixed(copies_of_start(), mine);
  }

  std::optional<Tensors> updated(const Tensors& mine) override {
    if (travelled_.item<std::int64_t>() == kNothing) return std::nullopt;
    travelled_.add_(1);
    if (travelled_.item<std::int64_t>() < options_.overlap) return std::nullopt;
    travelled_.fill_(kNothing);
    return mixed(copies_of_start(), mine);
  }

  NamedTensors state() const override {
    NamedTensors all = start_;
    all.insert(all.end(), momentum_.begin(), momentum_.end());
    // Named after the parameters, so that another cut finds it too.
    if (options_.overlap > 0)
      for (const auto& [name, tensor] : start_)
        all.emplace_back("travelled." + name, travelled_);
    return all;
  }

 private:
  static constexpr std::int64_t kNothing = -1;  // travels

  void step(std::size_t i, const at::Tensor& moved, double rate) const {
    const double unit = options_.per_rate ? rate : 1;
    if (unit == 0) return;  // nothing has moved, whatever the unit
    options_.outer.apply(start_[i].second, momentum_[i].second, moved / unit,
                         unit);
  }

  Tensors copies_of_start() const {
    Tensors copies;
    for (const auto& [name, tensor] : start_) copies.push_back(tensor.clone());
    return copies;
  }

  /// Mixes a replica's own weights into those that all have come to.
  Tensors mixed(Tensors all, const Tensors& mine) const {
    if (options_.mixing > 0)
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i].add_((mine.at(i) - all[i]) * options_.mixing);
    return all;
  }

  const AverageOptions options_;
  NamedTensors start_;
  NamedTensors momentum_;  // of the outer optimizer; empty: it is plain
  /// [1]: updates for which weights have travelled.
  at::Tensor travelled_ = at::full({1}, kNothing, at::kLong);
};

void describe_overlap(Fields& fields, AverageOptions& options,
                      ReplicaKind& kind) {
  fields.key("overlap", options.overlap,
             {.text = "updates that go on while weights travel, which are "
                      "those of so many updates before an average comes "
                      "(streaming DiLoCo's tau); below `every`",
              .unit = "updates",
              .min = 0,
              .max = 1e12});
  fields.key("mixing", options.mixing,
             {.text = "part of its own weights that a replica keeps in an "
                      "average (streaming DiLoCo's alpha); 0: it takes the "
                      "average",
              .min = 0,
              .max = 1});
  kind.exchange.overlap = options.overlap;
  if (options.overlap >= kind.exchange.every && options.overlap > 0)
    fields.reject("overlap",
                  fmt::format("{} would have weights travel when those after "
                              "them set out, {} updates later: set it below "
                              "`every`, or a larger `every`",
                              options.overlap, kind.exchange.every));
  if (options.overlap > 0 && kind.exchange.each_before > 0)
    fields.reject("overlap",
                  "is of averages that are updates apart, and each_before has "
                  "one after every update: leave one of them out");
  if (options.mixing > 0) kind.lockstep_key = "mixing";
  if (options.overlap > 0) kind.lockstep_key = "overlap";
}

}  // namespace

ReplicaKind average(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::weights, .agrees = true}};
  AverageOptions options;
  describe_every(fields, kind,
                 "updates of a replica between two averages, by which it "
                 "counts in them; one more than the run has: only its end is "
                 "averaged");
  fields.key("each_before", kind.exchange.each_before,
             {.text = "before this turn an average follows every update, "
                      "`every` is of those after it (post-local SGD)",
              .unit = "turns",
              .min = 0,
              .max = 1e12});
  fields.key("stagger", kind.stagger,
             {.text = "blocks average at different updates, evenly spread "
                      "(streaming DiLoCo's fragments)"});
  if (kind.stagger && !kind.every_of.empty())
    fields.reject("stagger",
                  "spreads the averages of blocks over one number of updates, "
                  "and every = [...] has one for each replica: leave one of "
                  "them out");
  describe_overlap(fields, options, kind);
  options.outer.describe(fields);
  fields.key("outer_nesterov", options.outer.nesterov,
             {.text = "whether that is Nesterov's"});
  fields.key("outer_per_rate", options.per_rate,
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
  kind.gives_movements = true;
  kind.make_centre = [options](const NamedTensors& parameters,
                               const CentreSite& site) {
    return averaging_centre(
        parameters, site.members,
        std::make_unique<Average>(options, parameters, false));
  };
  kind.make = [options](const NamedTensors& parameters,
                        const ReplicaSite& site) -> ReplicaRules {
    return {.policy = std::make_shared<Average>(options, parameters,
                                                site.compresses)};
  };
  return kind;
}

}  // namespace sluice
