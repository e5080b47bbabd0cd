#include "experiments/runs/seats/replica_ways.h"

#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "experiments/runs/seats/centres.h"
#include "lib/base/by_block.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/engines/control.h"
#include "lib/replicas/centre/centre_host.h"
#include "lib/replicas/groups/links.h"
#include "lib/replicas/groups/nccl.h"
#include "lib/schedules/plan/exchange_table.h"

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

/// The ways to the centres of a seat's block, of which one may lie beside it.
/// Links to others show waits themselves.
std::unique_ptr<CentreWays> centre_ways(
    const Experiment& experiment, const BlockPlan& plan,
    std::vector<Link> links, Heartbeat& heartbeat,
    const std::shared_ptr<MemoryAccount>& memory, CentreNotices& notices) {
  const int members = static_cast<int>(links.size());
  CentreSetup setup = centre_setup(experiment, plan.block, plan.replica);
  const std::string name = setup.name;
  CentreWays::Links ways;
  if (!has_centre(plan)) {
    for (const int host : hosts_of(experiment, plan.block))
      ways[host] = std::make_unique<CentreLink>(
          std::move(by_block(links, host)), plan.replica, members, name);
    return std::make_unique<CentreWays>(std::move(ways));
  }
  auto [own, of_centre] =
      memory_link(kCentreCapacity, kCentreCapacity, kSupervisedDeadline);
  by_block(links, plan.replica) = std::move(of_centre);
  auto host = std::make_shared<CentreHost>(std::move(setup), std::move(links),
                                           static_cast<int>(experiment.threads),
                                           memory);
  notices.give_to([centre = std::weak_ptr(host)](const CentreNotice& notice) {
    const auto there = centre.lock();
    if (!there) return;
    if (notice.lost > 0)
      there->lose(notice.lost, notice.life);
    else
      there->merge_those_who_wait();
  });
  ways[plan.replica] = std::make_unique<CentreLink>(
      with_waits_shown(std::move(own), heartbeat, kAnyNeighbour), plan.replica,
      members, name, std::move(host));
  return std::make_unique<CentreWays>(std::move(ways));
}

}  // namespace

ReplicaSync::Endpoints replica_ways(
    const Experiment& experiment, int seat, std::vector<Link> links,
    Heartbeat& heartbeat, const std::shared_ptr<MpiSession>& session,
    const std::shared_ptr<MemoryAccount>& memory, const c10::Device& device,
    CentreNotices& notices) {
  const BlockPlan& plan = by_block(experiment.plans.front().blocks, seat);
  if (plan.exchange.members == 1) return {};
  const std::string name = fmt::format("block {}", plan.block);
  if (plan.exchange.served)
    return {.centres = centre_ways(experiment, plan, std::move(links),
                                   heartbeat, memory, notices)};
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
