// A server whose weights all replicas push gradients to and pull: Downpour SGD
// (Dean et al. 2012, "Large scale distributed deep networks", section 4.1, with
// n_push = n_fetch = 1), round robin. In a turn the gradients of replica 1, 2,
// ... are a step each of the server's optimizer, and each replica pulls right
// after its own: when its next one is applied, the others have made N - 1
// updates. With a correction of stale gradients it is DC-ASGD (Zheng et al.
// 2017, arXiv:1609.08326, algorithms 1 and 2) or staleness-aware SGD (Zhang et
// al. 2016, arXiv:1511.05950, equation 6, 1 gradient to an update). Every
// replica keeps the server, from the same gradients.
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

ReplicaKind server(Fields& fields);

namespace {

class Server final : public ReplicaPolicy {
 public:
  explicit Server(const NamedTensors& parameters) : parameters_(parameters) {}

  void join(int member, int members) override {
    member_ = member;
    for (int each = 1; each <= members; ++each) {
      pulled_.emplace_back();
      for (const auto& [name, tensor] : parameters_)
        pulled_.back().emplace_back(fmt::format("server.{}.{}", each, name),
                                    tensor.detach().clone());
    }
    times_ = at::zeros({members}, at::kLong);
  }

  void begin(const Tensors& weights) override {
    for (NamedTensors& each : pulled_)
      for (std::size_t i = 0; i < each.size(); ++i)
        each[i].second.copy_(weights.at(i));
    times_.zero_();
  }

  Tensors before_steps() const override { return values_of(pulled_.back()); }

  UpdateInfo told_of_step(std::size_t i, UpdateInfo info) const override {
    const std::int64_t late = now() - time_of(i);
    info.in_updates.sum += late * info.batches;
    info.in_updates.most += late;
    info.forward_weights = values_of(pulled_.at(i));
    return info;
  }

  void stepped(std::size_t i, const Tensors& weights) override {
    const std::int64_t next = now() + 1;
    NamedTensors& its = pulled_.at(i);
    for (std::size_t k = 0; k < its.size(); ++k)
      its[k].second.copy_(weights.at(k));
    times_.data_ptr<std::int64_t>()[i] = next;
  }

  Tensors after_steps() const override {
    return values_of(by_block(pulled_, member_));
  }

  /// The server's: what the last replica has pulled.
  Tensors consensus(const Tensors& /*sum*/, int /*members*/) const override {
    return values_of(pulled_.back());
  }

  NamedTensors state() const override {
    NamedTensors all;
    for (const NamedTensors& each : pulled_)
      all.insert(all.end(), each.begin(), each.end());
    all.emplace_back("server_times", times_);
    return all;
  }

 private:
  std::int64_t time_of(std::size_t i) const {
    return times_.data_ptr<std::int64_t>()[i];
  }
  /// Updates that the server has made.
  std::int64_t now() const { return times_.max().item<std::int64_t>(); }

  NamedTensors parameters_;
  int member_ = 1;
  std::vector<NamedTensors> pulled_;  // by replica: what it pulled last
  at::Tensor times_;  // and after how many updates of the server
};

std::unique_ptr<ReplicaPolicy> make_server(const NamedTensors& parameters) {
  return std::make_unique<Server>(parameters);
}

}  // namespace

ReplicaKind server(Fields& /*fields*/) {
  ReplicaKind kind{.exchange = {.what = Exchanged::gradients, .agrees = true},
                   .tells_staleness = true};
  kind.exchange.graph.shape = PeerShape::complete;
  kind.make = make_server;
  return kind;
}

}  // namespace sluice
