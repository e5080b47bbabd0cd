#include "lib/replicas/centre_rules.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/updates/update_chain.h"

namespace sluice {
namespace {

NamedTensors named_copies(const NamedTensors& tensors,
                          const std::string& prefix) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(prefix + name, tensor.detach().clone());
  return copies;
}

Tensors unnamed_copies(const NamedTensors& tensors) {
  Tensors copies;
  for (const auto& [name, tensor] : tensors) copies.push_back(tensor.clone());
  return copies;
}

void copy_into(const NamedTensors& into, const Tensors& from) {
  for (std::size_t i = 0; i < into.size(); ++i)
    into[i].second.copy_(from.at(i));
}

void check_size(const Push& push, std::size_t parameters) {
  if (push.tensors.size() != parameters)
    throw LinkError("replica {} brings {} tensors for {} parameters",
                    push.member, push.tensors.size(), parameters);
}

/// The weights of the centre, and those that each replica has taken last.
class TakenWeights {
 public:
  TakenWeights(const NamedTensors& parameters, int members)
      : weights_(named_copies(parameters, "")) {
    for (int member = 1; member <= members; ++member)
      taken_.push_back(
          named_copies(parameters, fmt::format("taken.{}.", member)));
  }

  void begin(const Tensors& weights) const {
    copy_into(weights_, weights);
    for (const NamedTensors& each : taken_) copy_into(each, weights);
  }
  const NamedTensors& weights() const { return weights_; }
  const NamedTensors& by(int member) const { return by_block(taken_, member); }
  /// The replica takes the weights that the centre has now.
  Tensors give(int member) const {
    copy_into(by(member), values_of(weights_));
    return unnamed_copies(weights_);
  }
  NamedTensors state() const {
    NamedTensors all;
    for (const auto& [name, tensor] : weights_)
      all.emplace_back("centre." + name, tensor);
    for (const NamedTensors& each : taken_)
      all.insert(all.end(), each.begin(), each.end());
    return all;
  }

 private:
  NamedTensors weights_;
  std::vector<NamedTensors> taken_;  // by replica
};

class GradientCentre final : public CentreRule {
 public:
  GradientCentre(const NamedTensors& parameters, const UpdateOptions& options,
                 int members)
      : taken_(parameters, members), update_(options, taken_.weights()) {}

  void begin(const Tensors& weights) override { taken_.begin(weights); }

  Tensors serve(Push& push, std::int64_t served) override {
    check_size(push, taken_.weights().size());
    UpdateInfo& info = push.info;
    const std::int64_t missed = served - push.clock;
    info.in_updates.sum += missed * info.batches;
    info.in_updates.most += missed;
    info.forward_weights = values_of(taken_.by(push.member));
    Tensors gradients = std::move(push.tensors);
    info.rate = update_.apply(gradients, info);
    return taken_.give(push.member);
  }

  Tensors consensus() const override {
    return unnamed_copies(taken_.weights());
  }

  NamedTensors state() const override {
    NamedTensors all = taken_.state();
    for (const auto& [name, tensor] : update_.state())
      all.emplace_back("update." + name, tensor);
    return all;
  }

 private:
  const TakenWeights taken_;
  UpdateChain update_;
};

class MovementCentre final : public CentreRule {
 public:
  MovementCentre(const NamedTensors& parameters, int members, double part)
      : taken_(parameters, members), part_(part) {}

  void begin(const Tensors& weights) override { taken_.begin(weights); }

  Tensors serve(Push& push, std::int64_t /*served*/) override {
    const NamedTensors& weights = taken_.weights();
    check_size(push, weights.size());
    const NamedTensors& before = taken_.by(push.member);
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i].second.add_((push.tensors[i] - before[i].second) * part_);
    return taken_.give(push.member);
  }

  Tensors consensus() const override {
    return unnamed_copies(taken_.weights());
  }

  NamedTensors state() const override { return taken_.state(); }

 private:
  const TakenWeights taken_;
  const double part_;
};

class ElasticCentre final : public CentreRule {
 public:
  ElasticCentre(const NamedTensors& parameters, double alpha)
      : centre_(named_copies(parameters, "centre.")), alpha_(alpha) {}

  void begin(const Tensors& weights) override { copy_into(centre_, weights); }

  Tensors serve(Push& push, std::int64_t /*served*/) override {
    check_size(push, centre_.size());
    Tensors pulls;
    for (std::size_t i = 0; i < centre_.size(); ++i) {
      const at::Tensor& centre = centre_[i].second;
      pulls.push_back((centre - push.tensors[i]) * alpha_);
      centre.sub_(pulls.back());
    }
    return pulls;
  }

  Tensors consensus() const override { return unnamed_copies(centre_); }

  NamedTensors state() const override { return centre_; }

 private:
  const NamedTensors centre_;
  const double alpha_;
};

}  // namespace

std::unique_ptr<CentreRule> gradient_centre(const NamedTensors& parameters,
                                            const UpdateOptions& options,
                                            int members) {
  return std::make_unique<GradientCentre>(parameters, options, members);
}

std::unique_ptr<CentreRule> movement_centre(const NamedTensors& parameters,
                                            int members, double part) {
  return std::make_unique<MovementCentre>(parameters, members, part);
}

std::unique_ptr<CentreRule> elastic_centre(const NamedTensors& parameters,
                                           double alpha) {
  return std::make_unique<ElasticCentre>(parameters, alpha);
}

}  // namespace sluice
