#pragma once

#include <cstdint>
#include <vector>

#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

// BlockPlan::program makes a program of forwards and backwards; the passes here
// add the actions that follow from these.

/// One past the last turn of a grant, turns of its drain included.
std::int64_t end_of_turns(const BlockPlan& plan, const Grant& grant);

/// Makes each backward out of its visits (visits.h), each at its lag.
BlockProgram with_visits(const BlockPlan& plan, const BlockProgram& program);

/// Splits each backward into its two halves, one right after the other.
BlockProgram with_split_backwards(BlockProgram program);
/// Whether the action is the last of a batch that the backward visits.
bool is_last_visit(const BlockPlan& plan, const Action& action);
/// Whether the backward completes a window.
bool fills_window(const BlockPlan& plan, const Grant& grant,
                  const Action& backward);
/// Adds after each action those that follow from it (OpRow::follows,
/// exchange_after()): an update after the backward that completes a window.
BlockProgram with_followers(const BlockPlan& plan, const Grant& grant,
                            const BlockProgram& program);
/// Puts off each settle of weights that travel while updates go on
/// (ReplicaExchange::overlap).
BlockProgram with_overlap(const BlockPlan& plan, BlockProgram program);
/// Adds at the end of each turn the lessons of its input model and synthesizer,
/// each with the exchange of its gradients, if there is one.
BlockProgram with_lessons(const BlockPlan& plan, const Grant& grant,
                          const BlockProgram& program);
/// Keeps only the actions of that part of the turns.
BlockProgram only_part(const BlockPlan& plan, TurnPart part,
                       BlockProgram program);
/// Adds what the replicas agree on for what follows the turns: an exchange of
/// no batch.
BlockProgram with_agreement(const BlockPlan& plan, const Grant& grant,
                            BlockProgram program);
/// Adds the batches of an evaluation, after the turns, to replica 1.
BlockProgram with_evaluation(const BlockPlan& plan, const Grant& grant,
                             BlockProgram program);
/// Adds a checkpoint at the end.
BlockProgram with_saving(const Grant& grant, BlockProgram program);

}  // namespace sluice
