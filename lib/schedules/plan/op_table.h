#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "lib/schedules/plan/ledger.h"
#include "lib/schedules/plan/op.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// A mark that an action leaves, and the visit that has it.
struct LeftMark {
  Mark mark = Mark::in_flight;
  BatchRound visit = {};
};

/// What an op is to schedules. A new op is its name in op.h and its row; what a
/// block does then is in its row of lib/workers/ops/ops.cpp.
struct OpRow {
  Op op = Op::forward;
  char letter = '?';           ///< in a schedule as text
  std::string_view name = {};  ///< name_of()
  /// Where it stands among what a block was at when it was last heard of.
  std::string_view doing = {};
  /// Whether it belongs to a turn; else it follows all turns of a grant.
  bool is_training = true;
  /// Mark that its batch must have, and that the action uses up.
  std::optional<Mark> takes = {};
  bool takes_all = false;  ///< of all batches that have the mark
  /// What it leaves its batch with.
  std::vector<LeftMark> (*leaves)(const BlockPlan& plan,
                                  const Action& action) = nullptr;
  /// The messages that it waits for and sends; nullptr: none.
  std::vector<Transfer> (*in)(const RunPlan& plan, int block,
                              const Action& action) = nullptr;
  std::vector<Transfer> (*out)(const RunPlan& plan, int block,
                               const Action& action) = nullptr;
  /// The ops after which it stands in a program, where is_due() says so of that
  /// one's action; nullptr: always. Empty: others put it there.
  std::vector<Op> follows = {};
  bool (*is_due)(const BlockPlan& plan, const Grant& grant,
                 const Action& followed) = nullptr;
  /// Op whose measured cost this op has, or a part of it: op_seconds().
  Op costs_as = Op::forward;
  double cost_share = 1;
  /// Help text of the op's key in [virtual], which has its name; empty: there
  /// is no such key.
  std::string_view cost_text = {};
};

/// Rows in the order of Op.
std::span<const OpRow> op_rows();
const OpRow& row_of(Op op);

}  // namespace sluice
