#include "tests/oracles/meetings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <tuple>

#include <ATen/ATen.h>
#include <torch/optim/sgd.h>

#include "lib/schedules/plan/peers.h"

namespace sluice::plain_replicas {
namespace {

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

/// 1 - ((1 - 2) + ... + (1 - R)) / R, which of equal weights are these.
Tensors mean_between(const std::vector<Tensors>& lists) {
  Tensors means;
  for (std::size_t i = 0; i < lists.front().size(); ++i) {
    const at::Tensor& first = lists.front()[i];
    at::Tensor apart = at::zeros_like(first);
    for (const Tensors& list : lists) apart = apart + (first - list[i]);
    means.push_back(first - apart / static_cast<double>(lists.size()));
  }
  return means;
}

Tensors mean_weights(const Members& members) {
  std::vector<Tensors> all;
  for (const Member& member : members) all.push_back(member.weights);
  return mean_between(all);
}

class AllReduce final : public Meeting {
 public:
  bool counts_samples() const override { return true; }
  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    const Tensors mean = mean_of(gradients);
    for (Member& member : members) member.step(mean);
  }
};

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

Tensors copies(const Tensors& all) {
  Tensors copied;
  for (const at::Tensor& each : all) copied.push_back(each.detach().clone());
  return copied;
}

class Streaming final : public Meeting {
 public:
  Streaming(const Streams& streams, const Members& first)
      : streams_(streams), global_(copies(first.front().weights)) {
    for (const at::Tensor& each : global_)
      momentum_.push_back(at::zeros_like(each));
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    Meeting::update(members, gradients);
    ++updates_;
    if ((updates_ + streams_.overlap) % streams_.every == 0)
      published_ = mean_weights(members);
    if (updates_ % streams_.every == 0 && !published_.empty()) take(members);
  }

 private:
  void take(Members& members) {
    for (std::size_t i = 0; i < global_.size(); ++i) {
      momentum_[i] = 0.9 * momentum_[i] + (global_[i] - published_[i]);
      global_[i] = global_[i] - 0.7 * momentum_[i];
      for (Member& member : members)
        member.weights[i].copy_((1 - streams_.mixing) * global_[i] +
                                streams_.mixing * member.weights[i]);
    }
  }

  Streams streams_;
  Tensors global_;
  Tensors momentum_;
  Tensors published_;
  std::int64_t updates_ = 0;
};

class Sparse final : public Meeting {
 public:
  Sparse(const SparseSteps& options, const Members& first)
      : options_(options), start_(copies(first.front().weights)) {
    for (std::size_t r = 0; r < first.size(); ++r) {
      left_.emplace_back();
      for (const at::Tensor& each : start_)
        left_.back().push_back(at::zeros_like(each));
    }
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    Meeting::update(members, gradients);
    if (++updates_ % options_.every != 0) return;
    for (std::size_t i = 0; i < start_.size(); ++i) {
      at::Tensor sum = at::zeros_like(start_[i]);
      for (std::size_t r = 0; r < members.size(); ++r) {
        at::Tensor& left = left_[r][i];
        left = left * options_.decay;
        left = left + (start_[i] - members[r].weights[i]);
        const at::Tensor sent = chosen(left);
        left = left - sent;
        sum = sum + sent;
      }
      start_[i] =
          start_[i] - sum / static_cast<double>(members.size()) * options_.rate;
      for (Member& member : members) member.weights[i].copy_(start_[i]);
    }
  }

 private:
  at::Tensor chosen(const at::Tensor& all) const {
    const at::Tensor line = all.reshape({-1});
    at::Tensor kept = at::zeros_like(line);
    for (std::int64_t at = 0; at < line.numel(); at += options_.chunk) {
      const at::Tensor chunk =
          line.slice(0, at, std::min(at + options_.chunk, line.numel()));
      const auto count = static_cast<std::int64_t>(
          std::ceil(options_.ratio * static_cast<double>(chunk.numel())));
      const at::Tensor order =
          std::get<1>(at::sort(chunk.abs(), /*stable=*/true, /*dim=*/0,
                               /*descending=*/true))
              .slice(0, 0, count);
      kept.slice(0, at, at + chunk.numel())
          .index_copy_(0, order, chunk.index_select(0, order));
    }
    return kept.reshape(all.sizes());
  }

  SparseSteps options_;
  Tensors start_;
  std::vector<Tensors> left_;  // by replica
  std::int64_t updates_ = 0;
};

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

class Mixing final : public Meeting {
 public:
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
    return mean_between(weights);
  }

  Others others_;
  bool is_before_;
  std::int64_t exchanges_ = 0;
};

/// Peers that the run has drawn: the only thing that is taken from its code.
std::vector<int> drawn(const PeerGraph& graph, int r, int replicas,
                       std::int64_t n) {
  std::vector<int> from = peers_of(graph, replicas, r + 1, n).from;
  for (int& each : from) --each;
  return from;
}

class PairMeeting final : public Meeting {
 public:
  PairMeeting(const SlowWeights& options, const Members& first)
      : options_(options) {
    for (const Member& member : first) {
      slow_.push_back(copies(member.weights));
      momentum_.emplace_back();
      for (const at::Tensor& each : member.weights)
        momentum_.back().push_back(at::zeros_like(each));
    }
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    Meeting::update(members, gradients);
    if (++updates_ % options_.every != 0) return;
    const std::vector<Tensors> before = slow_;
    const PeerGraph graph{
        .shape = PeerShape::complete, .pairs = true, .seed = 1};
    for (std::size_t r = 0; r < members.size(); ++r) {
      std::vector<int> all =
          drawn(graph, static_cast<int>(r), static_cast<int>(members.size()),
                exchanges_);
      all.push_back(static_cast<int>(r));
      for (std::size_t i = 0; i < slow_[r].size(); ++i)
        slow_[r][i] = stepped(members, before, all, r, i);
    }
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < slow_[r].size(); ++i)
        members[r].weights[i].copy_(slow_[r][i]);
    ++exchanges_;
  }

 private:
  at::Tensor stepped(const Members& members, const std::vector<Tensors>& slow,
                     const std::vector<int>& all, std::size_t r,
                     std::size_t i) {
    at::Tensor moved = at::zeros_like(slow[r][i]);
    at::Tensor mean = at::zeros_like(slow[r][i]);
    const auto count = static_cast<double>(all.size());
    for (const int each : all) {
      const auto of = static_cast<std::size_t>(each);
      moved = moved + (members[of].weights[i] - slow[of][i]) / count;
      mean = mean + slow[of][i] / count;
    }
    at::Tensor& momentum = momentum_[r][i];
    momentum = options_.momentum * momentum + options_.rate * moved +
               options_.pull * (mean - slow[r][i]);
    return slow[r][i] + momentum;
  }

  SlowWeights options_;
  std::vector<Tensors> slow_;  // by replica
  std::vector<Tensors> momentum_;
  std::int64_t updates_ = 0;
  std::int64_t exchanges_ = 0;
};

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

}  // namespace

Member::Member(const NamedTensors& of) {
  for (const auto& [name, weight] : of) {
    weights.push_back(weight);
    velocities.push_back(at::zeros_like(weight));
  }
}

void Member::step(const Tensors& gradients, double rate) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    velocities[i].mul_(kMomentum).add_(gradients[i]);
    weights[i].sub_(velocities[i], rate);
  }
}

std::vector<int> both_beside(int r, int replicas, std::int64_t /*n*/) {
  const int after = (r + 1) % replicas;
  const int before = (r + replicas - 1) % replicas;
  return after == before ? std::vector<int>{after}
                         : std::vector<int>{after, before};
}

std::vector<int> one_behind(int r, int replicas, std::int64_t n) {
  const int step = replicas > 2 && n % 2 == 1 ? 2 : 1;
  return {(r + replicas - step) % replicas};
}

std::vector<int> drawn_pair(int r, int replicas, std::int64_t n) {
  return drawn({.shape = PeerShape::ring, .pairs = true, .seed = 1}, r,
               replicas, n);
}

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

MakeMeeting streaming(const Streams& streams) {
  return [streams](const Members& first) {
    return std::make_unique<Streaming>(streams, first);
  };
}

MakeMeeting paired(const SlowWeights& options) {
  return [options](const Members& first) {
    return std::make_unique<PairMeeting>(options, first);
  };
}

MakeMeeting sparse(const SparseSteps& options) {
  return [options](const Members& first) {
    return std::make_unique<Sparse>(options, first);
  };
}

MakeMeeting elastic(std::int64_t every) {
  return [every](const Members& first) {
    return std::make_unique<Elastic>(every, first);
  };
}

MakeMeeting mixing(Others others, bool is_before) {
  return [others, is_before](const Members&) {
    return std::make_unique<Mixing>(others, is_before);
  };
}

MakeMeeting push() {
  return [](const Members& first) { return std::make_unique<Push>(first); };
}

MakeMeeting neighbours() {
  return [](const Members&) { return std::make_unique<Neighbours>(); };
}

}  // namespace sluice::plain_replicas
