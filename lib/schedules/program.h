#pragma once

#include <cstdint>
#include <vector>

#include "lib/schedules/action.h"
#include "lib/schedules/plan.h"

namespace sluice {

// BlockPlan::program makes one of forwards and backwards; the passes here put
// in what follows from them.

/// The turn after the last one of a grant, those of its drain included.
std::int64_t end_of_turns(const BlockPlan& plan, const Grant& grant);

/// Each backward in its two halves, one after the other.
BlockProgram with_split_backwards(BlockProgram program);
/// After each action those that follow from it (OpRow::follows): an update
/// where a backward fills its window.
BlockProgram with_followers(const BlockPlan& plan, const Grant& grant,
                            const BlockProgram& program);
/// At the end of each turn what its input model and its synthesizer learn.
BlockProgram with_lessons(const BlockPlan& plan, const Grant& grant,
                          const BlockProgram& program);
/// What of its turns the grant is for.
BlockProgram only_part(const BlockPlan& plan, TurnPart part,
                       BlockProgram program);
/// After the turns, the batches of an evaluation.
BlockProgram with_evaluation(const Grant& grant, BlockProgram program);
/// At the end, a checkpoint.
BlockProgram with_saving(const Grant& grant, BlockProgram program);

}  // namespace sluice
