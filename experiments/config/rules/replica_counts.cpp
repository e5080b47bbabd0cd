#include "experiments/config/rules/replica_counts.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

/// Checks that there is a number for each block, and that in a turn all
/// replicas of a block have as many batches.
void check_counts(const Experiment& experiment, const Fields& top) {
  const ReplicaSettings& replicas = experiment.replicas;
  if (std::ssize(replicas.counts) != experiment.blocks())
    top.reject("replicas",
               fmt::format("count = {} is a list of {}, and there are {} "
                           "blocks: give one number, or one for each block",
                           replicas.count_text(), replicas.counts.size(),
                           experiment.blocks()));
  for (int block = 1; block <= experiment.blocks(); ++block)
    if (replicas.count % replicas.of_block(block) != 0)
      top.reject("replicas",
                 fmt::format("count = {}: a turn has {} batches, one for each "
                             "replica of the block that has the most, which "
                             "the {} of block {} can't share equally: set "
                             "numbers that divide {}",
                             replicas.count_text(), replicas.count,
                             replicas.of_block(block), block, replicas.count));
}

/// Refuses what is made for as many replicas of every block.
void refuse_uneven(const Experiment& experiment, const Fields& top) {
  const ReplicaSettings& replicas = experiment.replicas;
  const std::string list = fmt::format("count = {}", replicas.count_text());
  constexpr const char* kNumber = "one number of replicas for all blocks";
  if (replicas.policy != "all_reduce")
    top.reject("replicas",
               fmt::format("{} goes with policy = 'all_reduce', which sums the "
                           "gradients of all batches of a turn, and policy = "
                           "'{}' has each replica train by itself: set that "
                           "policy, or {}",
                           list, replicas.policy, kNumber));
  if (replicas.compress != "none")
    top.reject("replicas",
               fmt::format("{} sums gradients whole, and compress = '{}' sends "
                           "them in fewer bytes: leave compress out, or set {}",
                           list, replicas.compress, kNumber));
  if (replicas.kind.backup > 0)
    top.reject("replicas",
               fmt::format("{} has all replicas share the batches of a turn, "
                           "and backup leaves some out: leave backup out, or "
                           "set {}",
                           list, kNumber));
  if (replicas.group != GroupKind::links)
    top.reject(
        "replicas",
        fmt::format("{} has blocks of one replica, which come to no "
                    "collective, and group = '{}' wants all of them: "
                    "leave group out, or set {}",
                    list, replicas.uses_mpi() ? "mpi" : "nccl", kNumber));
  if (experiment.virtual_time.calibrate || experiment.forecast)
    top.reject(
        experiment.forecast ? "forecast" : "virtual",
        fmt::format("{}rehearses a block with one batch in a turn, and "
                    "with replicas.{} some have several: leave it out, "
                    "or set {}",
                    experiment.forecast ? "" : "calibrate ", list, kNumber));
}

}  // namespace

void derive_counts(const Fields& top, Experiment& experiment) {
  std::vector<std::int64_t>& counts = experiment.replicas.counts;
  if (counts.empty()) return;
  check_counts(experiment, top);
  if (std::all_of(counts.begin(), counts.end(), [&](std::int64_t one) {
        return one == experiment.replicas.count;
      }))
    counts.clear();
  else
    refuse_uneven(experiment, top);
}

}  // namespace sluice
