// Nearest neighbours training (neighbours.cpp) of replicas with clocks of their
// own: a gradient is a step of the replica that brings it and of its
// neighbours, as it arrives. A replica's own gradient is then stale by the
// steps that its neighbours have made it take since its forward. In FAST a
// neighbour's waits until the replica's own batch is done; with plain SGD the
// weights are the same then. The weights and optimizers of all replicas are
// with the centre, because a replica can't take a step while it computes.
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/taken_weights.h"
#include "lib/schedules/plan/peers.h"
#include "lib/tensors/sums.h"
#include "lib/updates/update_chain.h"

namespace sluice {
namespace {

class NeighbourCentre final : public CentreRule {
 public:
  NeighbourCentre(const NamedTensors& parameters, const UpdateOptions& options,
                  int members, const PeerGraph& graph, std::int64_t adopt_every)
      : graph_(graph),
        adopt_every_(adopt_every),
        clocks_(at::zeros({members}, at::kLong)),
        losses_(at::zeros({members}, at::kDouble)),
        counts_(at::zeros({members + 1}, at::kLong)) {
    for (int member = 1; member <= members; ++member) {
      own_.push_back(named_copies(parameters, fmt::format("own.{}.", member)));
      updates_.push_back(std::make_unique<UpdateChain>(options, own_.back()));
    }
    for (const auto& [name, tensor] : parameters) names_.push_back(name);
  }

  void begin(const Tensors& weights, std::int64_t clock) override {
    for (const NamedTensors& each : own_) copy_into(each, weights);
    clocks_.fill_(clock);
  }

  ServerAnswer serve(Push push) override {
    const int member = push.member;
    check_size(push, names_.size());
    const std::int64_t missed = clock_of(member) - push.clock;
    push.info.in_updates.sum += missed * push.info.batches;
    push.info.in_updates.most += missed;
    const double rate = step(member, push);
    for (const int each : peers_of(graph_, members(), member, 0).to)
      step(each, push);
    if (adopt_every_ > 0) note_loss(push);
    return {.tensors = unnamed_copies(by_block(own_, member)),
            .rate = rate,
            .clock = clock_of(member),
            .missed = missed};
  }

  void lose(int member) override { lost_.insert(member); }

  ServerAnswer take_back(int member) override {
    lost_.insert(member);
    const Tensors mean = consensus();
    lost_.erase(member);
    copy_into(by_block(own_, member), mean);
    // A replica that returns has counted as the first one.
    clocks_[member - 1].copy_(clocks_[0]);
    losses_[member - 1].zero_();
    counts_[member - 1].zero_();
    return {.tensors = unnamed_copies(by_block(own_, member)),
            .clock = clock_of(member)};
  }

  /// The mean of all that are there.
  Tensors consensus() const override {
    std::vector<Tensors> all;
    for (int member = 1; member <= members(); ++member)
      if (!lost_.contains(member))
        all.push_back(values_of(by_block(own_, member)));
    return mean_in_order(all);
  }

  /// Counts by the names of what they are of, so that another cut finds them
  /// too.
  NamedTensors state() const override {
    NamedTensors all;
    for (int member = 1; member <= members(); ++member) {
      const NamedTensors& own = by_block(own_, member);
      all.insert(all.end(), own.begin(), own.end());
      for (const auto& [name, tensor] : by_block(updates_, member)->state())
        all.emplace_back("update." + name, tensor);
    }
    for (const std::string& name : names_) {
      all.emplace_back("clocks." + name, clocks_);
      all.emplace_back("losses." + name, losses_);
      all.emplace_back("counts." + name, counts_);
    }
    return all;
  }

 private:
  int members() const { return static_cast<int>(own_.size()); }
  std::int64_t clock_of(int member) const {
    return clocks_[member - 1].item<std::int64_t>();
  }

  double step(int member, const Push& push) {
    clocks_[member - 1].add_(1);
    Tensors gradients = push.tensors;
    return by_block(updates_, member)->apply(gradients, push.info);
  }

  /// All go on with the weights of the one with the lowest mean loss when so
  /// many batches have come.
  void note_loss(const Push& push) {
    losses_[push.member - 1].add_(push.loss);
    counts_[push.member - 1].add_(push.info.batches);
    counts_[members()].add_(push.info.batches);
    if (counts_[members()].item<std::int64_t>() < adopt_every_) return;
    const Tensors best = values_of(by_block(own_, best_member()));
    for (const NamedTensors& each : own_) copy_into(each, best);
    losses_.zero_();
    counts_.zero_();
  }

  /// The first of equals.
  int best_member() const {
    int best = 1;
    double lowest = std::numeric_limits<double>::infinity();
    for (int member = 1; member <= members(); ++member) {
      const auto count = counts_[member - 1].item<std::int64_t>();
      if (count == 0 || lost_.contains(member)) continue;
      const double mean =
          losses_[member - 1].item<double>() / static_cast<double>(count);
      if (!(mean < lowest)) continue;
      lowest = mean;
      best = member;
    }
    return best;
  }

  const PeerGraph graph_;
  const std::int64_t adopt_every_;
  std::vector<std::string> names_;                     // of the parameters
  std::vector<NamedTensors> own_;                      // by replica
  std::vector<std::unique_ptr<UpdateChain>> updates_;  // by replica
  at::Tensor clocks_;  // [members]: steps of each
  at::Tensor losses_;  // [members]: sums since all have adopted
  at::Tensor counts_;  // [members + 1]: batches of these; of all
  std::set<int> lost_;
};

}  // namespace

std::unique_ptr<CentreRule> neighbour_centre(const NamedTensors& parameters,
                                             const UpdateOptions& options,
                                             int members,
                                             const PeerGraph& graph,
                                             std::int64_t adopt_every) {
  return std::make_unique<NeighbourCentre>(parameters, options, members, graph,
                                           adopt_every);
}

}  // namespace sluice
