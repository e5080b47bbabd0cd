// Replicas that mix their weights with those of neighbours in a graph, and with
// no others. D-PSGD (Lian et al. 2017, arXiv:1705.09056, algorithm 1) with
// its doubly stochastic weights, equal ones on these graphs. AD-PSGD (Lian et
// al. 2018, arXiv:1710.06952, algorithm 1) in lockstep: pairs that a key
// draws, so that no average falls between a gradient and its step; in a free
// schedule each replica meets a neighbour when it is ready (centre_rules.h,
// partners.h). GossipGraD (Daily et al. 2018, arXiv:1803.05880, section 4): one
// partner each, by dissemination. Stochastic gradient push (Assran et al. 2019,
// arXiv:1811.10792, algorithm 1). NoLoCo (Kolehmainen et al. 2025,
// arXiv:2506.10911, without activations that are routed to other replicas):
// pairs of all replicas, and an outer optimizer in each.
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/replicas/centre_rules.h"
#include "lib/replicas/outer_step.h"
#include "lib/replicas/partners.h"
#include "lib/replicas/replica_policy.h"
#include "lib/tensors/sums.h"

namespace sluice {

ReplicaKind gossip(Fields& fields);

namespace {

/// An equal part of each, in new tensors. Where these are as many as parts, so
/// on all graphs but `random`, it is their mean: of equal ones, they.
Tensors mixed(const Mixture& mixture) {
  if (std::ssize(mixture.published) == mixture.parts)
    return mean_in_order(mixture.published);
  Tensors all = sum_in_order(mixture.published);
  for (at::Tensor& each : all) each = each / mixture.parts;
  return all;
}

class Gossip final : public ReplicaPolicy {
 public:
  /// moves: by how far weights move, to be added after the update; else where
  /// they are.
  explicit Gossip(bool moves) : moves_(moves) {}

  Tensors combine(const Tensors& mine, Mixture mixture) override {
    Tensors all = mixed(mixture);
    if (moves_)
      for (std::size_t i = 0; i < all.size(); ++i) all[i].sub_(mine.at(i));
    return all;
  }

 private:
  const bool moves_;
};

/// An outer optimizer in each replica, whose gradient is how far the mean of
/// peers is from where the replica began or met last, its slow weights: with an
/// outer rate eta, m = momentum m + eta (mean weights - mean slow weights) +
/// pull eta (mean slow weights - slow weights), which are added to the slow
/// weights. With a pull of 1 the mean of the slow weights cancels out, and
/// isn't sent.
class OuterGossip final : public ReplicaPolicy {
 public:
  OuterGossip(const OuterStep& outer, double pull,
              const NamedTensors& parameters)
      : outer_(outer), pull_(pull) {
    for (const auto& [name, tensor] : parameters) {
      slow_.emplace_back("outer.start." + name, tensor.detach().clone());
      momentum_.emplace_back("outer.momentum." + name,
                             at::zeros_like(tensor.detach()));
    }
  }

  void begin(const Tensors& weights) override {
    for (std::size_t i = 0; i < slow_.size(); ++i)
      slow_[i].second.copy_(weights.at(i));
  }

  Tensors offer(const Tensors& mine) override {
    Tensors all = ReplicaPolicy::offer(mine);
    if (pull_ != 1)
      for (const auto& [name, tensor] : slow_) all.push_back(tensor.clone());
    return all;
  }

  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    const Tensors means = mixed(mixture);
    const std::size_t count = slow_.size();
    SLUICE_CHECK(means.size() == (pull_ == 1 ? count : 2 * count),
                 "{} tensors of {} in a mixture", means.size(), count);
    Tensors weights;
    for (std::size_t i = 0; i < count; ++i) {
      const at::Tensor& slow = slow_[i].second;
      const at::Tensor gradient =
          pull_ == 1
              ? slow - means[i]
              : means[count + i] - means[i] + pull_ * (slow - means[count + i]);
      outer_.apply(slow, momentum_[i].second, gradient);
      weights.push_back(slow.clone());
    }
    return weights;
  }

  NamedTensors state() const override {
    NamedTensors all = slow_;
    all.insert(all.end(), momentum_.begin(), momentum_.end());
    return all;
  }

 private:
  const OuterStep outer_;
  const double pull_;
  NamedTensors slow_;
  NamedTensors momentum_;
};

/// Sums of weights and of a number that each replica begins at 1 with: what
/// sends itself to others loses, and what others send to gains, of both alike,
/// so that their quotient is a mean. Replicas train that quotient; a step moves
/// the sum as far as it moves the quotient.
class PushSum final : public ReplicaPolicy {
 public:
  explicit PushSum(const NamedTensors& parameters) {
    for (const auto& [name, tensor] : parameters)
      sums_.emplace_back("push_sum." + name, tensor.detach().clone());
    const at::TensorOptions options =
        sums_.empty() ? at::TensorOptions() : sums_.front().second.options();
    share_ = at::ones({1}, options.dtype(at::kDouble));
  }

  void begin(const Tensors& weights) override {
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i].second.copy_(weights.at(i));
    share_.fill_(1);
  }

  Tensors offer(const Tensors& mine) override {
    Tensors all = agreed(mine);
    all.push_back(share_.clone());
    return all;
  }

  Tensors combine(const Tensors& /*mine*/, Mixture mixture) override {
    const Tensors all = mixed(mixture);
    SLUICE_CHECK(all.size() == sums_.size() + 1,
                 "{} tensors of {} in a mixture", all.size(), sums_.size() + 1);
    share_.copy_(all.back());
    Tensors weights;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i].second.copy_(all[i]);
      weights.push_back(sums_[i].second / share());
    }
    return weights;
  }

  /// The sums of now. Their mean over all replicas is that of the weights, as
  /// the numbers add up to N.
  Tensors agreed(const Tensors& mine) const override {
    Tensors all;
    const double here = share();
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      const at::Tensor& sum = sums_[i].second;
      // A share of 1 gives mine.at(i) itself, free of rounding.
      all.push_back(here == 1 ? mine.at(i).detach().clone()
                              : sum + (mine.at(i) - sum / here));
    }
    return all;
  }

  NamedTensors state() const override {
    NamedTensors all = sums_;
    // Named after the parameters, so that another cut finds it too.
    for (const auto& [name, tensor] : sums_)
      all.emplace_back("share_of." + name, share_);
    return all;
  }

 private:
  double share() const { return share_.item<double>(); }

  NamedTensors sums_;  // after the last exchange
  at::Tensor share_;   // [1], float64
};

Names<PeerShape> shapes() {
  Names<PeerShape> all;
  for (const PeerShape shape :
       {PeerShape::ring, PeerShape::torus, PeerShape::complete,
        PeerShape::exponential, PeerShape::hops, PeerShape::random})
    all.push_back({std::string(shape_name(shape)), shape});
  return all;
}

void check_gossip(const ReplicaExchange& exchange, bool mixes_before,
                  bool push_sum, const Fields& fields) {
  const PeerGraph& graph = exchange.graph;
  const bool is_directed =
      graph.shape == PeerShape::hops || graph.shape == PeerShape::random;
  if (graph.pairs && is_directed)
    fields.reject("pairs",
                  "two of a pair give and take, and graph = 'hops' and "
                  "'random' have one direction: set graph = 'ring', or leave "
                  "pairs out");
  if (graph.rotates && graph.shape != PeerShape::hops)
    fields.reject("rotate",
                  "is of graph = 'hops', whose hops repeat: set that, or leave "
                  "rotate out");
  if (graph.shape == PeerShape::random && !push_sum)
    fields.reject("graph",
                  "with 'random' some replicas are sent more than others: set "
                  "push_sum = true, which makes up for it");
  if (exchange.visits_partners && (!graph.pairs || push_sum))
    fields.reject("meet_at",
                  "'partner' is of pairs that take the mean of their weights: "
                  "set pairs = true and leave push_sum out, or leave meet_at "
                  "out");
  if (push_sum && mixes_before)
    fields.reject("push_sum",
                  "sends what an update has made: set mix = 'after'");
}

void check_outer(bool mixes_before, bool push_sum, const Fields& fields) {
  if (mixes_before)
    fields.reject("mix",
                  "'before' leaves outer_lr, outer_momentum and outer_pull "
                  "no step of their own, which they take after updates: set "
                  "mix = 'after', or leave these out");
  if (push_sum)
    fields.reject("push_sum",
                  "divides what is sent, and outer_lr, outer_momentum and "
                  "outer_pull step by it: leave one of them out");
}

}  // namespace

ReplicaKind gossip(Fields& fields) {
  ReplicaKind kind{
      .exchange = {.what = ExchangedTensors::old_weights, .agrees = true}};
  PeerGraph& graph = kind.exchange.graph;
  graph.shape = PeerShape::ring;
  fields.key("every", kind.exchange.every,
             {.text = "updates between two exchanges",
              .unit = "updates",
              .min = 1,
              .max = 1e12});
  fields.key("graph", graph.shape, shapes(),
             {.text = "whom a replica exchanges with: its two neighbours on a "
                      "ring; four on a torus; all others; those 1, 2, 4, ... "
                      "further on either side (exponential); to one of these "
                      "in each exchange (hops: after log2 of replicas.count "
                      "all have heard of all); to one that is drawn (random)"});
  fields.key("pairs", graph.pairs,
             {.text = "in an exchange pairs of neighbours meet, which are "
                      "drawn by seed, replica and turn, and others in the next "
                      "(AD-PSGD); the graph must be bipartite, or complete: "
                      "then all may meet (NoLoCo)"});
  fields.key("rotate", graph.rotates,
             {.text = "of hops: after all of them the replicas change their "
                      "places, drawn by the seed (GossipGraD)"});
  fields.key("mix", kind.exchange.what,
             {{"before", ExchangedTensors::old_weights},
              {"after", ExchangedTensors::weights}},
             {.text = "weights of before an update, which is then added to "
                      "what was mixed, so that it may travel meanwhile "
                      "(D-PSGD); or of after it"});
  fields.key(
      "meet_at", kind.exchange.visits_partners,
      {{"centre", false}, {"partner", true}},
      {.text = "where pairs meet with schedule = 'free': all at the "
               "centre of a block, beside replica 1; or at the replicas "
               "of the one side of the graph, which those of the other "
               "side visit over links of their own, as in AD-PSGD's "
               "paper: no replica has the traffic of all; a lost one ends "
               "the run"});
  bool push_sum = false;
  fields.key("push_sum", push_sum,
             {.text = "what is sent is divided by how much of all a replica "
                      "has got (stochastic gradient push): for graphs on which "
                      "not all get the same"});
  OuterStep outer;
  outer.describe(fields);
  double pull = 1;
  fields.key("outer_pull", pull,
             {.text = "of its steps: how far a replica's slow weights go to "
                      "the mean of those of the peers, in units of outer_lr "
                      "(NoLoCo's gamma / eta)",
              .min = 0,
              .max = 1e6});
  const bool is_plain = outer.is_plain() && pull == 1;
  const bool mixes_before = kind.exchange.what == ExchangedTensors::old_weights;
  check_gossip(kind.exchange, mixes_before, push_sum, fields);
  if (!is_plain) {
    check_outer(mixes_before, push_sum, fields);
    kind.lockstep_key = "outer_lr";
    if (outer.momentum > 0) kind.lockstep_key = "outer_momentum";
    if (pull != 1) kind.offered = 2;
  }
  kind.make = [=, asks = kind.exchange.visits_partners](
                  const NamedTensors& parameters,
                  const ReplicaSite& site) -> ReplicaRules {
    if (asks)
      return {.policy = partner_policy(
                  parameters, is_host(graph, site.members, site.member),
                  mixes_before)};
    if (!is_plain)
      return {.policy = std::make_shared<OuterGossip>(outer, pull, parameters)};
    if (push_sum) return {.policy = std::make_shared<PushSum>(parameters)};
    return {.policy = std::make_shared<Gossip>(mixes_before)};
  };
  if (graph.pairs && !push_sum) {
    kind.brings_updated = true;
    kind.make_centre =
        [graph, mixes_before, asks = kind.exchange.visits_partners](
            const NamedTensors& parameters, const CentreSite& site) {
          if (asks) return partner_centre(parameters, site.host);
          PeerGraph drawn = graph;
          drawn.seed = site.seed;
          return pair_centre(parameters, site.members, drawn, mixes_before);
        };
  }
  return kind;
}

}  // namespace sluice
