#include "experiments/runs/checkpoints/resumed_replicas.h"

#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/saved_deals.h"

namespace sluice {
namespace {

std::string policy_text(const ReplicaSettings& replicas) {
  return fmt::format("policy = '{}'{}{}", replicas.policy,
                     replicas.kind.exchange.shards ? ", shard = true" : "",
                     replicas.compress == "none"
                         ? ""
                         : fmt::format(", compress = '{}'", replicas.compress));
}

void check_whole(const Experiment& now, const ReplicaSettings& saved,
                 const RestartPoint& from) {
  if (!now.replicas.kind.exchange.shards) return;
  throw UserError(
      "{}: was saved with replicas.count = {}, and here it is {}: with shard = "
      "true each replica keeps a part of the optimizer's state, which another "
      "number can't take over; begin a run with initial_weights = '{}'",
      from.checkpoint, saved.count_text(), now.replicas.count_text(),
      from.checkpoint);
}

/// Refuses another number of replicas where blocks run free: their record has a
/// line for each seat, and the optimizer's state may be that of the centre.
void check_recorded(const Experiment& now, const ReplicaSettings& saved,
                    const RestartPoint& from) {
  if (!now.free_schedule) return;
  throw UserError(
      "{}: was saved with replicas.count = {}, and here it is {}: with "
      "schedule = 'free' schedule.txt and the replicas' centre are of one "
      "number, which another can't take over; begin a run with "
      "initial_weights = '{}'",
      from.checkpoint, saved.count_text(), now.replicas.count_text(),
      from.checkpoint);
}

/// Numbers of replicas in a checkpoint, as far as it has them.
ReplicaSettings saved_in(const std::string& checkpoint) {
  return {.count = deals_of(checkpoint).replicas,
          .counts = counts_of(checkpoint)};
}

}  // namespace

std::vector<std::string> overrides_for_replicas(const Experiment& now,
                                                const RestartPoint& from) {
  const ReplicaSettings before = saved_in(from.checkpoint);
  if (before.count_text() != now.replicas.count_text()) {
    check_whole(now, before, from);
    check_recorded(now, before, from);
  }
  const Deals saved = deals_of(from.checkpoint);
  // The config may say another begin, or none, than the checkpoint's.
  if (saved == now.replicas.deals()) return {};
  return {fmt::format("replicas.since={{turn={}, batches={}}}", from.turn,
                      saved.before(from.turn))};
}

void check_same_policy(const ReplicaSettings& run, const ReplicaSettings& now,
                       const RestartPoint& from) {
  const bool are_same = run.count == now.count;
  if (run.count == 1 || now.count == 1 || policy_text(run) == policy_text(now))
    return;
  throw UserError(
      "{}: its replicas were trained with {}, and go on with that, not with "
      "{}{}: for another one begin a run with initial_weights = '{}'",
      from.checkpoint, policy_text(run), policy_text(now),
      are_same ? "" : ", whatever their number", from.checkpoint);
}

void check_replicas(const Experiment& experiment,
                    const std::string& checkpoint) {
  const Deals saved = deals_of(checkpoint);
  const Deals now = experiment.replicas.deals();
  const auto turn = turn_of(checkpoint);
  if (saved == now || (turn && now.since_turn <= *turn &&
                       now.before(*turn) == saved.before(*turn)))
    return;
  throw UserError(
      "{}: was saved with replicas.count = {}, and here it is {}: `sluice run "
      "--resume RUN replicas.count={}` trains on with that number",
      checkpoint, saved.replicas, now.replicas, now.replicas);
}

void check_same_replicas(const Experiment& experiment,
                         const std::string& checkpoint) {
  const std::string saved = saved_in(checkpoint).count_text();
  const std::string now = experiment.replicas.count_text();
  if (saved == now) return;
  throw UserError(
      "{}: was saved with replicas.count = {}, and here it is {}: set the same "
      "number, or begin with the checkpoint's weights alone (initial_weights = "
      "'{}')",
      checkpoint, saved, now, checkpoint);
}

void check_begin(const Experiment& experiment) {
  if (experiment.replicas.since_turn == 0 &&
      experiment.replicas.since_deal == 0)
    return;
  throw UserError(
      "replicas.since is of a run that was continued with another "
      "replicas.count, and this one begins: leave it out");
}

std::string describe_replicas(const Experiment& experiment,
                              const std::string& checkpoint) {
  const Deals saved = deals_of(checkpoint);
  const Deals now = experiment.replicas.deals();
  const ReplicaSettings before = saved_in(checkpoint);
  if (before.count_text() == experiment.replicas.count_text()) return "";
  const std::string& compress = experiment.replicas.compress;
  const bool forgets = saved.replicas > 1 && compress != "none";
  return fmt::format(
      "Replicas: {} become {}, which begin with the weights that those agreed "
      "on, after {} batches{}",
      before.count_text(), experiment.replicas.count_text(),
      saved.before(turn_of(checkpoint).value_or(now.since_turn)),
      forgets ? fmt::format("; what compress = '{}' has kept of gradients is "
                            "left behind",
                            compress)
              : "");
}

}  // namespace sluice
