// R replicas of K blocks must end with the weights of R networks of LibTorch's
// own modules in one plain loop, which exchange what the papers say: no seats,
// no messages, no schedule. Labels are those of the specification (parallel,
// sections A1-A4, A5, A8-A11, A13, A14, A18, A19, A23, B).
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "experiments/data/sample_source.h"
#include "experiments/runs/seat_sources.h"
#include "lib/schedules/peers.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::replica_oracle_test {

constexpr std::int64_t kTurns = 30;
constexpr std::int64_t kBatchSize = 16;
// Powers of two, whose products are exact: a step has the same bits whether it
// is computed with fused multiply-adds, as parts of ATen's are, or without.
constexpr double kRate = 0.0625;
constexpr double kMomentum = 0.5;
constexpr double kApart = 1e-3;  // results of which none is the other's

/// One network: three linear layers, of which a cut leaves the first below it,
/// and the head there.
class PlainNet {
 public:
  PlainNet(int blocks, bool is_local) : is_cut_(is_local && blocks > 1) {
    for (const char* part : {"weight", "bias"}) {
      add(1, "layers.0.linear", *first_, part);
      add(blocks, "layers.1.linear", *second_, part);
      add(blocks, "layers.2.linear", *third_, part);
      if (is_cut_) add(1, "heads.0.classifier", *head_, part);
    }
  }

  /// The loss whose gradient a batch gives. With a local loss nothing passes
  /// the cut downwards, and the head's loss is all that the layer below it and
  /// the head learn from.
  at::Tensor loss(const at::Tensor& inputs, const at::Tensor& labels) {
    const at::Tensor features = at::relu(first_(inputs.flatten(1)));
    if (!is_cut_) return at::cross_entropy_loss(above(features), labels);
    return at::cross_entropy_loss(head_(features), labels) +
           at::cross_entropy_loss(above(features.detach()), labels);
  }

  NamedTensors& of_block(int block) { return named_[block]; }
  const std::map<int, NamedTensors>& named() const { return named_; }

 private:
  at::Tensor above(const at::Tensor& features) {
    return third_(at::relu(second_(features)));
  }

  void add(int block, const std::string& name, torch::nn::Module& layer,
           const char* part) {
    named_[block].emplace_back(name + "." + part,
                               layer.named_parameters()[part]);
  }

  bool is_cut_;
  torch::nn::Linear first_{784, 24};
  torch::nn::Linear second_{24, 20};
  torch::nn::Linear third_{20, 10};
  torch::nn::Linear head_{24, 10};
  std::map<int, NamedTensors> named_;
};

/// A replica of a block, and SGD with momentum on it.
struct Member {
  Tensors weights;
  Tensors velocities;

  explicit Member(const NamedTensors& of) {
    for (const auto& [name, weight] : of) {
      weights.push_back(weight);
      velocities.push_back(at::zeros_like(weight));
    }
  }

  void step(const Tensors& gradients, double rate = kRate) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      velocities[i].mul_(kMomentum).add_(gradients[i]);
      weights[i].sub_(velocities[i], rate);
    }
  }
};
using Members = std::vector<Member>;

/// ((1 + 2) + ... + R) / R, of each tensor.
Tensors mean_of(const std::vector<Tensors>& lists) {
  Tensors means;
  for (std::size_t i = 0; i < lists.front().size(); ++i) {
    at::Tensor sum = at::zeros_like(lists.front()[i]);
    for (const Tensors& list : lists) sum = sum + list[i];
    means.push_back(sum / static_cast<double>(lists.size()));
  }
  return means;
}

Tensors mean_weights(const Members& members) {
  std::vector<Tensors> all;
  for (const Member& member : members) all.push_back(member.weights);
  return mean_of(all);
}

/// What the replicas of a block do with their gradients: one update of each.
class Meeting {
 public:
  virtual ~Meeting() = default;
  virtual void update(Members& members, const std::vector<Tensors>& gradients) {
    for (std::size_t r = 0; r < members.size(); ++r)
      members[r].step(gradients[r]);
  }
};

/// A1 without backup workers.
class AllReduce final : public Meeting {
 public:
  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    const Tensors mean = mean_of(gradients);
    for (Member& member : members) member.step(mean);
  }
};

/// A2, A18: all take the mean of the weights after every so many updates.
class Average : public Meeting {
 public:
  explicit Average(std::int64_t every) : every_(every) {}

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    Meeting::update(members, gradients);
    if (++updates_ % every_ != 0) return;
    const Tensors next = after(mean_weights(members));
    for (Member& member : members)
      for (std::size_t i = 0; i < next.size(); ++i)
        member.weights[i].copy_(next[i]);
  }

 protected:
  /// The weights with which all go on.
  virtual Tensors after(Tensors mean) { return mean; }

 private:
  std::int64_t every_;
  std::int64_t updates_ = 0;
};

/// A19: where all go on is a step of PyTorch's own SGD from where they began,
/// by how far their mean is from there.
class OuterSgd final : public Average {
 public:
  OuterSgd(std::int64_t every, const Members& first) : Average(every) {
    for (const at::Tensor& weight : first.front().weights)
      start_.push_back(weight.detach().clone());
    sgd_ = std::make_unique<torch::optim::SGD>(
        start_, torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(true));
  }

 protected:
  Tensors after(Tensors mean) override {
    for (std::size_t i = 0; i < mean.size(); ++i)
      start_[i].mutable_grad() = start_[i] - mean[i];
    sgd_->step();
    return start_;
  }

 private:
  Tensors start_;
  std::unique_ptr<torch::optim::SGD> sgd_;
};

/// A4, synchronous: both sides move by what the weights and the centre were
/// before the update.
class Elastic final : public Meeting {
 public:
  Elastic(std::int64_t every, const Members& first) : every_(every) {
    for (const at::Tensor& weight : first.front().weights)
      centre_.push_back(weight.detach().clone());
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    if (++updates_ % every_ != 0) return Meeting::update(members, gradients);
    const double alpha = kBeta / static_cast<double>(members.size());
    std::vector<Tensors> pulls;
    for (const Member& member : members) {
      pulls.emplace_back();
      for (std::size_t i = 0; i < centre_.size(); ++i)
        pulls.back().push_back(alpha * (member.weights[i] - centre_[i]));
    }
    const Tensors mean = mean_weights(members);
    for (std::size_t i = 0; i < centre_.size(); ++i)
      centre_[i] = (1 - kBeta) * centre_[i] + kBeta * mean[i];
    Meeting::update(members, gradients);
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < centre_.size(); ++i)
        members[r].weights[i].sub_(pulls[r][i]);
  }

 private:
  static constexpr double kBeta = 0.9;
  std::int64_t every_;
  std::int64_t updates_ = 0;
  Tensors centre_;
};

/// A8, A9, A13: each takes the mean of its own weights and those of some
/// others. Before the update, how far that is away is added after it.
class Mixing final : public Meeting {
 public:
  /// Replicas, from 0, whom replica r of R takes from in exchange n.
  using Others = std::vector<int> (*)(int r, int replicas, std::int64_t n);
  Mixing(Others others, bool is_before)
      : others_(others), is_before_(is_before) {}

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    if (!is_before_) Meeting::update(members, gradients);
    std::vector<Tensors> moves;
    for (int r = 0; r < std::ssize(members); ++r) {
      moves.push_back(mixed(members, r));
      for (std::size_t i = 0; i < moves.back().size(); ++i)
        if (is_before_)
          moves.back()[i] =
              moves.back()[i] - members[static_cast<std::size_t>(r)].weights[i];
    }
    if (is_before_) Meeting::update(members, gradients);
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < moves[r].size(); ++i)
        if (is_before_)
          members[r].weights[i].add_(moves[r][i]);
        else
          members[r].weights[i].copy_(moves[r][i]);
    ++exchanges_;
  }

 private:
  Tensors mixed(const Members& members, int r) const {
    std::vector<int> all =
        others_(r, static_cast<int>(members.size()), exchanges_);
    all.push_back(r);
    std::sort(all.begin(), all.end());
    std::vector<Tensors> weights;
    for (const int each : all)
      weights.push_back(members[static_cast<std::size_t>(each)].weights);
    return mean_of(weights);
  }

  Others others_;
  bool is_before_;
  std::int64_t exchanges_ = 0;
};

std::vector<int> both_beside(int r, int replicas, std::int64_t /*n*/) {
  const int after = (r + 1) % replicas;
  const int before = (r + replicas - 1) % replicas;
  return after == before ? std::vector<int>{after}
                         : std::vector<int>{after, before};
}

/// Steps of 1, 2, 1, 2, ...: up to four replicas have heard of all then.
std::vector<int> one_behind(int r, int replicas, std::int64_t n) {
  const int step = replicas > 2 && n % 2 == 1 ? 2 : 1;
  return {(r + replicas - step) % replicas};
}

/// Whom the run says that it has drawn: the only thing that is taken from
/// there.
std::vector<int> drawn(const PeerGraph& graph, int r, int replicas,
                       std::int64_t n) {
  std::vector<int> from = peers_of(graph, replicas, r + 1, n).from;
  for (int& each : from) --each;
  return from;
}

std::vector<int> drawn_pair(int r, int replicas, std::int64_t n) {
  return drawn({.shape = PeerShape::ring, .pairs = true, .seed = 1}, r,
               replicas, n);
}

/// A23: gradients at z = x / w, steps on x, and half of x and w to one other.
class Push final : public Meeting {
 public:
  explicit Push(const Members& first) : shares_(first.size(), 1) {
    for (const Member& member : first) {
      sums_.emplace_back();
      for (const at::Tensor& weight : member.weights)
        sums_.back().push_back(weight.detach().clone());
    }
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < gradients[r].size(); ++i) {
        at::Tensor& velocity = members[r].velocities[i];
        velocity.mul_(kMomentum).add_(gradients[r][i]);
        sums_[r][i] = sums_[r][i] - kRate * velocity;
      }
    const std::vector<Tensors> sums = sums_;
    const std::vector<double> shares = shares_;
    for (std::size_t r = 0; r < members.size(); ++r) {
      for (at::Tensor& sum : sums_[r]) sum = sum / 2;
      shares_[r] = shares[r] / 2;
      for (const int other :
           drawn({.shape = PeerShape::random, .seed = 1}, static_cast<int>(r),
                 static_cast<int>(members.size()), exchanges_)) {
        const auto from = static_cast<std::size_t>(other);
        for (std::size_t i = 0; i < sums_[r].size(); ++i)
          sums_[r][i] = sums_[r][i] + sums[from][i] / 2;
        shares_[r] += shares[from] / 2;
      }
      for (std::size_t i = 0; i < sums_[r].size(); ++i)
        members[r].weights[i].copy_(sums_[r][i] / shares_[r]);
    }
    ++exchanges_;
  }

 private:
  std::vector<Tensors> sums_;   // by replica
  std::vector<double> shares_;  // by replica
  std::int64_t exchanges_ = 0;
};

/// B: steps by its own gradient and those of both beside it, in the order of
/// the replicas.
class Neighbours final : public Meeting {
 public:
  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    const auto replicas = static_cast<int>(members.size());
    for (int r = 0; r < replicas; ++r) {
      std::vector<int> all = both_beside(r, replicas, 0);
      all.push_back(r);
      std::sort(all.begin(), all.end());
      for (const int each : all)
        members[static_cast<std::size_t>(r)].step(
            gradients[static_cast<std::size_t>(each)]);
    }
  }
};

/// A4, asynchronous, round robin: e = alpha (x - c); x -= e; c += e, where the
/// gradient is that at the x of before.
class ElasticOneByOne final : public Meeting {
 public:
  explicit ElasticOneByOne(const Members& first) {
    for (const at::Tensor& weight : first.front().weights)
      centre_.push_back(weight.detach().clone());
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    const double alpha = 0.9 / static_cast<double>(members.size());
    std::vector<Tensors> moves;
    for (const Member& member : members) {
      moves.emplace_back();
      for (std::size_t i = 0; i < centre_.size(); ++i) {
        moves.back().push_back((member.weights[i] - centre_[i]) * alpha);
        centre_[i] = centre_[i] + moves.back().back();
      }
    }
    Meeting::update(members, gradients);
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < centre_.size(); ++i)
        members[r].weights[i].sub_(moves[r][i]);
  }

 private:
  Tensors centre_;
};

/// A14, round robin: the server adds how far each replica has moved in so many
/// updates, divided by these.
class MovementServer final : public Meeting {
 public:
  MovementServer(const Members& first, std::int64_t every) : every_(every) {
    for (const at::Tensor& weight : first.front().weights)
      server_.push_back(weight.detach().clone());
    pulled_.assign(first.size(), server_);
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    Meeting::update(members, gradients);
    if (++updates_ % every_ != 0) return;
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < server_.size(); ++i) {
        at::Tensor& weight = members[r].weights[i];
        server_[i] =
            server_[i] + (weight - pulled_[r][i]) / static_cast<double>(every_);
        pulled_[r][i] = server_[i];
        weight.copy_(server_[i]);
      }
  }

 private:
  std::int64_t every_;
  std::int64_t updates_ = 0;
  Tensors server_;
  std::vector<Tensors> pulled_;  // by replica
};

/// What a server makes of a gradient that is `late` updates old.
enum class Stale { as_it_is, compensated, slower };

/// A5, A10, A11, round robin: the server steps by the gradient of one replica
/// after the other, and each goes on with what it finds after its own.
class Server final : public Meeting {
 public:
  Server(const Members& first, Stale stale)
      : server_(named_copies(first.front().weights)),
        stale_(stale),
        pulled_(first.size(), 0) {}

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    for (std::size_t r = 0; r < members.size(); ++r) {
      Tensors all = gradients[r];
      if (stale_ == Stale::compensated)
        for (std::size_t i = 0; i < all.size(); ++i) {
          const at::Tensor moved = server_.weights[i] - members[r].weights[i];
          all[i] = all[i] + kStrength * (moved * all[i] * all[i]);
        }
      const auto late = static_cast<double>(updates_ - pulled_[r]);
      server_.step(
          all, stale_ == Stale::slower ? kRate / std::max(1.0, late) : kRate);
      for (std::size_t i = 0; i < all.size(); ++i)
        members[r].weights[i].copy_(server_.weights[i]);
      pulled_[r] = ++updates_;
    }
  }

 private:
  static constexpr double kStrength = 0.5;

  static NamedTensors named_copies(const Tensors& weights) {
    NamedTensors all;
    for (const at::Tensor& weight : weights)
      all.emplace_back("", weight.detach().clone());
    return all;
  }

  Member server_;
  Stale stale_;
  std::int64_t updates_ = 0;
  std::vector<std::int64_t> pulled_;  // after how many updates, by replica
};

struct Method {
  std::string name;
  std::string lines;
  std::int64_t micro_batches = 1;
  bool is_local = false;
  /// Block 1 of 2 applies a turn's gradient one turn later.
  bool is_delayed = false;
  bool drains = true;  ///< and that of the last turn after it
};

using MakeMeeting =
    std::function<std::unique_ptr<Meeting>(const Members& first)>;

struct Policy {
  std::string name;
  std::string options;
  MakeMeeting make;
  /// How far from the oracle's the weights may end; 0: the same bits. Where it
  /// isn't 0, the equations are written in another order than Sluice computes
  /// them in: the rounding of every exchange grows over the turns, to 3e-7.
  double tolerance = 0;
  std::string optimizer = {};  ///< more keys of it
};

void PrintTo(const Method& method, std::ostream* out) {
  *out << method.name;
}
void PrintTo(const Policy& policy, std::ostream* out) {
  *out << policy.name;
}

/// The replicas of a whole run, trained by that method.
class PlainReplicas {
 public:
  /// `of`: the same run with one replica, whose first weights and whose batches
  /// they share.
  PlainReplicas(const Training& of, const Method& method, int replicas,
                const MakeMeeting& make)
      : method_(method), source_(training_source(of.experiment)) {
    for (int replica = 0; replica < replicas; ++replica)
      nets_.push_back(first_net(of));
    for (int block = 1; block <= of.experiment.blocks(); ++block) {
      for (const auto& net : nets_)
        members_[block].emplace_back(net->of_block(block));
      meetings_[block] = make(members_[block]);
    }
  }

  void train() {
    std::vector<Tensors> late;  // block 1's gradients of the turn before
    for (std::int64_t turn = 0; turn < kTurns; ++turn) {
      std::map<int, std::vector<Tensors>> gradients = gradients_of(turn);
      if (method_.is_delayed && members_.size() > 1)
        std::swap(gradients[1], late);
      for (const auto& [block, of_block] : gradients) update(block, of_block);
    }
    if (method_.drains) update(1, late);
  }

  /// By Sluice's names.
  NamedTensors weights(int replica) const {
    NamedTensors all;
    for (const auto& [block, named] :
         nets_.at(static_cast<std::size_t>(replica - 1))->named())
      for (const auto& [name, weight] : named)
        all.emplace_back(name, weight.detach());
    return all;
  }

 private:
  std::shared_ptr<PlainNet> first_net(const Training& of) const {
    const at::NoGradGuard no_grad;
    auto net =
        std::make_shared<PlainNet>(of.experiment.blocks(), method_.is_local);
    const NamedTensors first = of.weights();
    const std::map<std::string, at::Tensor> by_name(first.begin(), first.end());
    for (int block = 1; block <= of.experiment.blocks(); ++block)
      for (auto& [name, weight] : net->of_block(block))
        weight.copy_(by_name.at(name));
    return net;
  }

  /// By block and replica, all at the weights with which the turn begins.
  std::map<int, std::vector<Tensors>> gradients_of(std::int64_t turn) {
    std::map<int, std::vector<Tensors>> all;
    const auto replicas = static_cast<std::int64_t>(nets_.size());
    for (std::int64_t r = 0; r < replicas; ++r) {
      PlainNet& net = *nets_[static_cast<std::size_t>(r)];
      const Tensors gradients =
          sum_of_parts(net, source_->batch(turn * replicas + r));
      auto next = gradients.begin();
      for (const auto& [block, named] : net.named()) {
        const auto end = next + std::ssize(named);
        all[block].emplace_back(next, end);
        next = end;
      }
    }
    return all;
  }

  /// Of the turn's micro-batches, one after the other: the loss of each counts
  /// by its share of the samples.
  Tensors sum_of_parts(PlainNet& net, const Batch& batch) const {
    const std::int64_t whole = batch.labels.size(0);
    const std::int64_t size = kBatchSize / method_.micro_batches;
    Tensors sums;
    for (std::int64_t at = 0; at < whole; at += size) {
      const std::int64_t end = std::min(at + size, whole);
      const auto part = gradients_at(net, batch.inputs.slice(0, at, end),
                                     batch.labels.slice(0, at, end), whole);
      if (sums.empty()) sums.resize(part.size());
      for (std::size_t i = 0; i < part.size(); ++i)
        sums[i] = sums[i].defined() ? sums[i] + part[i] : part[i];
    }
    return sums;
  }

  static Tensors gradients_at(PlainNet& net, const at::Tensor& inputs,
                              const at::Tensor& labels, std::int64_t whole) {
    Tensors weights;
    for (const auto& [block, named] : net.named())
      for (const auto& [name, weight] : named) weights.push_back(weight);
    const double share =
        static_cast<double>(labels.size(0)) / static_cast<double>(whole);
    return torch::autograd::grad({net.loss(inputs, labels) * share}, weights);
  }

  void update(int block, const std::vector<Tensors>& gradients) {
    const at::NoGradGuard no_grad;
    if (!gradients.empty())
      meetings_.at(block)->update(members_.at(block), gradients);
  }

  Method method_;
  std::unique_ptr<SampleSource> source_;
  std::vector<std::shared_ptr<PlainNet>> nets_;  // by replica
  std::map<int, Members> members_;               // by block
  std::map<int, std::unique_ptr<Meeting>> meetings_;
};

MakeMeeting alone() {
  return [](const Members&) { return std::make_unique<Meeting>(); };
}

MakeMeeting all_reduce() {
  return [](const Members&) { return std::make_unique<AllReduce>(); };
}

MakeMeeting average(std::int64_t every) {
  return [every](const Members&) { return std::make_unique<Average>(every); };
}

MakeMeeting outer_sgd(std::int64_t every) {
  return [every](const Members& first) {
    return std::make_unique<OuterSgd>(every, first);
  };
}

MakeMeeting elastic(std::int64_t every) {
  return [every](const Members& first) {
    return std::make_unique<Elastic>(every, first);
  };
}

MakeMeeting mixing(Mixing::Others others, bool is_before) {
  return [others, is_before](const Members&) {
    return std::make_unique<Mixing>(others, is_before);
  };
}

MakeMeeting one_by_one() {
  return [](const Members& first) {
    return std::make_unique<ElasticOneByOne>(first);
  };
}

MakeMeeting server(Stale stale) {
  return [stale](const Members& first) {
    return std::make_unique<Server>(first, stale);
  };
}

MakeMeeting movements(std::int64_t every) {
  return [every](const Members& first) {
    return std::make_unique<MovementServer>(first, every);
  };
}

MakeMeeting push() {
  return [](const Members& first) { return std::make_unique<Push>(first); };
}

MakeMeeting neighbours() {
  return [](const Members&) { return std::make_unique<Neighbours>(); };
}

/// An epoch is four batches of 16 and one of 10, which the replicas get in
/// turns that differ; cut into micro-batches, that one makes 3 of 4, 4 and 2.
std::string lines_of(int blocks, const Method& method, const Policy& policy) {
  return fmt::format(
      "turns = {}\nbatch_size = {}\ndata = {{train = 74, test = 16}}\n"
      "model = {{hidden = [24, 20]}}\nblocks = {}\n"
      "optimizer = {{name = 'sgd', lr = {}, momentum = {}{}}}\n{}",
      kTurns, kBatchSize, blocks == 1 ? "1" : "['0', '1-']", kRate, kMomentum,
      policy.optimizer, method.lines);
}

using Case = std::tuple<int, int, Method, Policy>;

class ReplicaOracle : public testing::TestWithParam<Case> {
 protected:
  /// The run, with so many replicas.
  Training training(int count) const {
    std::string lines = lines_of(blocks, method, policy);
    if (count > 1)
      lines += fmt::format("replicas = {{count = {}, policy = {}}}\n", count,
                           policy.options);
    return Training(small_experiment(lines));
  }

  Training trained(int count) const {
    Training run = training(count);
    run.train();
    return run;
  }

  PlainReplicas trained_oracle(const MakeMeeting& make) const {
    PlainReplicas oracle(training(1), method, replicas, make);
    oracle.train();
    return oracle;
  }

  const int replicas = std::get<0>(GetParam());
  const int blocks = std::get<1>(GetParam());
  const Method method = std::get<2>(GetParam());
  const Policy policy = std::get<3>(GetParam());
};

TEST_P(ReplicaOracle, WeightsOfAllReplicasAreThoseOfThePlainLoop) {
  const PlainReplicas oracle = trained_oracle(policy.make);
  const Training run = trained(replicas);
  for (int replica = 1; replica <= replicas; ++replica) {
    const NamedTensors weights = run.weights(replica);
    const NamedTensors expected = oracle.weights(replica);
    ASSERT_EQ(weights.size(), expected.size());
    if (policy.tolerance == 0) {
      EXPECT_EQ(difference(weights, expected), "") << "replica " << replica;
    } else {
      EXPECT_LT(distance(weights, expected), policy.tolerance)
          << "replica " << replica;
    }
  }
}

/// The inequality beside that equality: what a run would come to whose
/// replicas don't exchange, or get the batches of a run of one.
class ReplicasApart : public ReplicaOracle {};

TEST_P(ReplicasApart, EndElsewhereThanThoseThatNeverMeetAndThanOneAlone) {
  const PlainReplicas never_meet = trained_oracle(alone());
  const Training one = trained(1);
  const Training run = trained(replicas);
  for (int replica = 1; replica <= replicas; ++replica) {
    const NamedTensors weights = run.weights(replica);
    EXPECT_GT(distance(weights, never_meet.weights(replica)), kApart)
        << "replica " << replica;
    EXPECT_GT(distance(weights, one.weights()), kApart)
        << "replica " << replica;
  }
}

const Method kBackprop = {.name = "Backprop",
                          .lines = "boundary = {policy = 'backprop'}\n"};
const Method kPipeline = {
    .name = "OneForwardOneBackward",
    .lines =
        "boundary = {policy = 'backprop'}\n"
        "pipeline = {order = '1f1b', micro_batches = 4}\n",
    .micro_batches = 4};
const Method kDelayed = {
    .name = "DelayedGradient",
    .lines = "boundary = {policy = 'delayed_gradient', weights = 'stash'}\n",
    .is_delayed = true};
const Method kUndrained = {.name = "DelayedGradientUndrained",
                           .lines = kDelayed.lines + "drain = false\n",
                           .is_delayed = true,
                           .drains = false};
const Method kLocal = {.name = "LocalLoss",
                       .lines =
                           "boundary = {policy = 'local_loss', head = "
                           "{name = 'linear'}}\n",
                       .is_local = true};

const Policy kAllReduce = {"AllReduce", "'all_reduce'", all_reduce()};
const Policy kOfWeights[] = {
    {"AverageOf3", "'average', every = 3", average(3)},
    // 30 turns end two updates after an average, at which all were the same.
    {"AverageOf4", "'average', every = 4", average(4)},
    {"OuterNesterov",
     "'average', every = 3, outer_lr = 0.7, outer_momentum = 0.9, "
     "outer_nesterov = true",
     outer_sgd(3), 1e-6},
    {"ElasticOf1", "'elastic', every = 1, beta = 0.9", elastic(1), 1e-6},
    {"ElasticOf2", "'elastic', every = 2, beta = 0.9", elastic(2), 1e-6}};

const Policy kOfPeers[] = {
    {"GossipOnARing", "'gossip'", mixing(both_beside, true)},
    {"GossipAfterUpdates", "'gossip', mix = 'after'",
     mixing(both_beside, false)},
    {"GossipByHops", "'gossip', graph = 'hops', mix = 'after'",
     mixing(one_behind, false)},
    {"PushByHops", "'gossip', graph = 'hops', mix = 'after', push_sum = true",
     mixing(one_behind, false)},
    {"Neighbours", "'neighbours'", neighbours()}};
const Policy kOfServers[] = {
    {"ElasticOneByOne", "'elastic', one_by_one = true, beta = 0.9",
     one_by_one()},
    {"Movements", "'server', push = 'movement', every = 2, per_update = true",
     movements(2)},
    {"Server", "'server'", server(Stale::as_it_is)}};
const Policy kCompensating = {
    "DelayCompensation", "'server'", server(Stale::compensated), 0,
    ", correction = {name = 'delay_compensation', strength = 0.5}"};
// Of three the rate is halved, and stays a power of two.
const Policy kSlower = {"StalenessAware", "'server'", server(Stale::slower), 0,
                        ", correction = {name = 'staleness_aware'}"};
const Policy kPairs = {"GossipOfPairs", "'gossip', pairs = true",
                       mixing(drawn_pair, true)};
const Policy kPush = {
    "PushToOneThatIsDrawn",
    "'gossip', graph = 'random', mix = 'after', push_sum = true", push(), 1e-6};

/// "AverageOf3_Backprop_Within1e6", and the numbers of replicas and blocks.
std::string name_of(const testing::TestParamInfo<Case>& info) {
  const auto& [replicas, blocks, method, policy] = info.param;
  return fmt::format("{}_{}_{}_R{}K{}", policy.name, method.name,
                     policy.tolerance == 0 ? "SameBits" : "Within1e6", replicas,
                     blocks);
}

using testing::Combine;
using testing::Values;
using testing::ValuesIn;

INSTANTIATE_TEST_SUITE_P(Gradients, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop, kPipeline, kDelayed, kLocal),
                                 Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GradientsInFlight, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(2), Values(kUndrained),
                                 Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Weights, ReplicaOracle,
                         Combine(Values(2, 3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfWeights)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(WeightsByLateUpdates, ReplicaOracle,
                         Combine(Values(2), Values(2),
                                 Values(kDelayed, kUndrained),
                                 ValuesIn(kOfWeights)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Peers, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), ValuesIn(kOfPeers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(PeersByLateUpdates, ReplicaOracle,
                         Combine(Values(3), Values(2),
                                 Values(kDelayed, kUndrained),
                                 ValuesIn(kOfPeers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Servers, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), ValuesIn(kOfServers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersOfLateGradients, ReplicaOracle,
                         Combine(Values(3), Values(2),
                                 Values(kDelayed, kUndrained),
                                 ValuesIn(kOfServers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersThatCompensate, ReplicaOracle,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), Values(kCompensating)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(ServersThatSlowDown, ReplicaOracle,
                         Combine(Values(3), Values(1, 2), Values(kBackprop),
                                 Values(kSlower)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Pairs, ReplicaOracle,
                         Combine(Values(2, 4), Values(1, 2), Values(kBackprop),
                                 Values(kPairs)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Pushes, ReplicaOracle,
                         Combine(Values(3, 4), Values(1, 2), Values(kBackprop),
                                 Values(kPush)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Servers, ReplicasApart,
                         Combine(Values(3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfServers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Peers, ReplicasApart,
                         Combine(Values(3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfPeers)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Gradients, ReplicasApart,
                         Combine(Values(2, 3, 4), Values(1, 2),
                                 Values(kBackprop), Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(GradientsOfMethods, ReplicasApart,
                         Combine(Values(2), Values(2),
                                 Values(kPipeline, kDelayed, kLocal),
                                 Values(kAllReduce)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Weights, ReplicasApart,
                         Combine(Values(2, 3), Values(1, 2), Values(kBackprop),
                                 ValuesIn(kOfWeights)),
                         name_of);

}  // namespace sluice::replica_oracle_test
