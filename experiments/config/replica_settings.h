#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/by_block.h"
#include "lib/base/config.h"
#include "lib/replicas/replica_policy.h"
#include "lib/schedules/plan/deals.h"

namespace sluice {

/// Library that sums over replicas in processes.
enum class GroupKind : std::uint8_t { links, mpi, nccl };

/// Copies of every block.
struct ReplicaSettings {
  std::int64_t count = 1;  ///< of every block, or of that which has the most
  /// Where blocks have different numbers: of each, index k-1. Empty: `count`.
  std::vector<std::int64_t> counts = {};
  std::int64_t start_with = 0;  ///< of these, from the start; 0: all
  std::int64_t since_turn = 0;  ///< Deals, of a run continued with this count
  std::int64_t since_deal = 0;
  /// Policies beside those of replica_policies(); set before describe().
  std::vector<ReplicaPolicyRow> own_policies = {};
  std::string policy = "all_reduce";   ///< a row of either
  std::string compress = "none";       ///< a row of compressors()
  GroupKind group = GroupKind::links;  ///< between processes
  /// Which batches each has in a free schedule; derive_dealing() says it where
  /// the config doesn't.
  Dealing dealing = Dealing::shares;
  bool is_dealing_derived = false;
  ReplicaKind kind = {};

  void describe(Fields& fields);
  void describe_count(Fields& fields);
  void describe_policy(Fields& fields);
  void describe_compressor(Fields& fields);
  bool starts_with_all() const { return start_with == 0; }
  bool are_uneven() const { return !counts.empty(); }
  std::int64_t of_block(int block) const {
    return counts.empty() ? count : by_block(counts, block);
  }
  /// Replicas as the key `count` has them: "2", or "[2, 1]".
  std::string count_text() const;
  Deals deals() const { return {count, since_turn, since_deal}; }
  bool uses_mpi() const { return group == GroupKind::mpi; }
  bool uses_nccl() const { return group == GroupKind::nccl; }
};

}  // namespace sluice
