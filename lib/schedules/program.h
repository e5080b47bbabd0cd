#pragma once

#include <cstdint>
#include <vector>

#include "lib/schedules/action.h"
#include "lib/schedules/plan.h"

namespace sluice {

/// What a block does of a grant, in its order: turns_of() makes one of forwards
/// and backwards, and passes put in what follows from them.
using BlockProgram = std::vector<Action>;

/// The turn after the last one of a grant, those of its drain included.
std::int64_t end_of_turns(const BlockPlan& plan, const Grant& grant);

/// In turn t a forward of batch t and a backward of batch
/// t - delay, in the order of the plan; in a drain backwards alone.
BlockProgram turns_of(const BlockPlan& plan, const Grant& grant);

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
