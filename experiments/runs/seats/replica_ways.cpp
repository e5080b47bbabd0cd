#include "experiments/runs/seats/replica_ways.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/engines/control.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/links_centre.h"
#include "lib/replicas/groups/nccl.h"

namespace sluice {
namespace {

/// Shows in the heartbeat that a seat waits for the other replicas.
class ShownGroup final : public Group {
 public:
  ShownGroup(std::unique_ptr<Group> group, Heartbeat& heartbeat)
      : group_(std::move(group)), heartbeat_(heartbeat) {}
  int members() const override { return group_->members(); }
  int member() const override { return group_->member(); }
  void start_sum(Tensors mine) override { group_->start_sum(std::move(mine)); }
  Tensors finish_sum() override {
    const WaitScope waiting(heartbeat_, kAnyNeighbour);
    return group_->finish_sum();
  }
  bool is_ready() const override { return group_->is_ready(); }

 private:
  const std::unique_ptr<Group> group_;
  Heartbeat& heartbeat_;
};

/// Shows in the heartbeat that the seat that has the centre waits, too.
class ShownCentre final : public CentreLink {
 public:
  ShownCentre(std::unique_ptr<CentreLink> centre, Heartbeat& heartbeat)
      : centre_(std::move(centre)), heartbeat_(heartbeat) {}
  int members() const override { return centre_->members(); }
  int member() const override { return centre_->member(); }
  Centre* owned() override { return centre_->owned(); }
  ServerAnswer visit(Push push) override {
    const WaitScope waiting(heartbeat_, kAnyNeighbour);
    return centre_->visit(std::move(push));
  }
  std::int64_t bring(Push push) override {
    const WaitScope waiting(heartbeat_, kAnyNeighbour);
    return centre_->bring(std::move(push));
  }
  MergeResult take(bool told) override {
    const WaitScope waiting(heartbeat_, kAnyNeighbour);
    return centre_->take(told);
  }
  std::optional<std::int64_t> deal(std::int64_t first,
                                   std::int64_t end) override {
    const WaitScope waiting(heartbeat_, kAnyNeighbour);
    return centre_->deal(first, end);
  }
  void arrive(Tensors statistics) override {
    centre_->arrive(std::move(statistics));
  }
  void await_rest() override {
    const WaitScope waiting(heartbeat_, kAnyNeighbour);
    centre_->await_rest();
  }
  void finish() override { centre_->finish(); }

 private:
  const std::unique_ptr<CentreLink> centre_;
  Heartbeat& heartbeat_;
};

}  // namespace

ReplicaSync::Endpoints replica_ways(
    const Experiment& experiment, int seat, std::vector<Link> links,
    Heartbeat& heartbeat, const std::shared_ptr<MpiSession>& session,
    const std::shared_ptr<MemoryAccount>& memory, const c10::Device& device) {
  const BlockPlan& plan = by_block(experiment.plans.front().blocks, seat);
  if (plan.exchange.members == 1) return {};
  const std::string name = fmt::format("block {}", plan.block);
  if (plan.exchange.served) {
    auto centre = links_centre(std::move(links), plan.replica,
                               kSupervisedDeadline, name, memory);
    if (plan.replica > 1)
      return {.centre = std::move(centre)};  // links show it
    return {.centre =
                std::make_unique<ShownCentre>(std::move(centre), heartbeat)};
  }
  if (experiment.replicas.uses_nccl())
    return {.group = nccl_group(std::move(links), plan.replica, device, name)};
  if (!session)
    return {.group = links_group(std::move(links), plan.replica, name)};
  return {.group = std::make_unique<ShownGroup>(
              mpi_group(session,
                        {.members = static_cast<int>(experiment.replicas.count),
                         .member = plan.replica,
                         .colour = plan.block,
                         .name = name},
                        kSupervisedDeadline),
              heartbeat)};
}

}  // namespace sluice
