#include "tests/oracles/meetings.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

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
