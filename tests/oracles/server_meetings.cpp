// Meetings with a server, in the order of the replicas.
#include <algorithm>
#include <cstddef>

#include <ATen/ATen.h>

#include "tests/oracles/meetings.h"

namespace sluice::plain_replicas {
namespace {

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

class NesterovServer final : public Meeting {
 public:
  NesterovServer(const Members& first, std::int64_t every, double rate,
                 double momentum, std::int64_t pushes)
      : every_(every), rate_(rate), momentum_(momentum), pushes_(pushes) {
    for (const at::Tensor& weight : first.front().weights) {
      server_.push_back(weight.detach().clone());
      velocity_.push_back(at::zeros_like(weight));
      sum_.push_back(at::zeros_like(weight));
    }
    pulled_.assign(first.size(), server_);
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    Meeting::update(members, gradients);
    if (++updates_ % every_ != 0) return;
    for (std::size_t r = 0; r < members.size(); ++r) {
      const bool is_milestone = ++pushed_ % pushes_ == 0;
      const auto n = static_cast<double>(pushes_);
      for (std::size_t i = 0; i < server_.size(); ++i) {
        at::Tensor& weight = members[r].weights[i];
        const at::Tensor gradient = pulled_[r][i] - weight;
        sum_[i] = sum_[i] + gradient;
        server_[i] = server_[i] - rate_ * gradient / n;
        if (is_milestone) {
          velocity_[i] = momentum_ * velocity_[i] + sum_[i] / n;
          server_[i] = server_[i] - rate_ * momentum_ * velocity_[i];
          sum_[i] = at::zeros_like(sum_[i]);
        }
        pulled_[r][i] = server_[i];
        weight.copy_(server_[i]);
      }
    }
  }

 private:
  std::int64_t every_;
  double rate_;
  double momentum_;
  std::int64_t pushes_;
  std::int64_t updates_ = 0;
  std::int64_t pushed_ = 0;
  Tensors server_;
  Tensors velocity_;
  Tensors sum_;
  std::vector<Tensors> pulled_;  // by replica
};

/// v and x as the paper has them: v is the last step, with the rate in it.
class LookingAhead final : public Meeting {
 public:
  explicit LookingAhead(const Members& first) {
    for (const at::Tensor& weight : first.front().weights)
      centre_.push_back(weight.detach().clone());
    for (const Member& member : first) {
      steps_.emplace_back();
      for (const at::Tensor& weight : member.weights)
        steps_.back().push_back(at::zeros_like(weight));
    }
  }

  void look_ahead(Members& members) override {
    const at::NoGradGuard no_grad;
    before_.clear();
    for (std::size_t r = 0; r < members.size(); ++r) {
      before_.emplace_back();
      for (std::size_t i = 0; i < centre_.size(); ++i) {
        at::Tensor& weight = members[r].weights[i];
        before_.back().push_back(weight.detach().clone());
        weight.copy_(weight + kMomentum * steps_[r][i]);
      }
    }
  }

  void look_back(Members& members) override {
    const at::NoGradGuard no_grad;
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < centre_.size(); ++i)
        members[r].weights[i].copy_(before_[r][i]);
  }

  void update(Members& members,
              const std::vector<Tensors>& gradients) override {
    const double alpha = 0.9 / static_cast<double>(members.size());
    for (std::size_t r = 0; r < members.size(); ++r)
      for (std::size_t i = 0; i < centre_.size(); ++i) {
        at::Tensor& weight = members[r].weights[i];
        const at::Tensor pull = alpha * (weight - centre_[i]);
        centre_[i] = centre_[i] + pull;
        steps_[r][i] = kMomentum * steps_[r][i] - kRate * gradients[r][i];
        weight.copy_(weight + steps_[r][i] - pull);
      }
  }

 private:
  Tensors centre_;
  std::vector<Tensors> steps_;   // by replica
  std::vector<Tensors> before_;  // by replica: weights without the look-ahead
};

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

}  // namespace

MakeMeeting one_by_one() {
  return [](const Members& first) {
    return std::make_unique<ElasticOneByOne>(first);
  };
}

MakeMeeting movements(std::int64_t every) {
  return [every](const Members& first) {
    return std::make_unique<MovementServer>(first, every);
  };
}

MakeMeeting delayed_nesterov(std::int64_t every, double rate, double momentum,
                             std::int64_t pushes) {
  return [=](const Members& first) {
    return std::make_unique<NesterovServer>(first, every, rate, momentum,
                                            pushes);
  };
}

MakeMeeting looking_ahead() {
  return [](const Members& first) {
    return std::make_unique<LookingAhead>(first);
  };
}

MakeMeeting server(Stale stale) {
  return [stale](const Members& first) {
    return std::make_unique<Server>(first, stale);
  };
}

}  // namespace sluice::plain_replicas
