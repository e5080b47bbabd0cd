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
/// Adds after each action the one that follows from it (OpRow::follows): an
/// update after the backward that completes a window.
BlockProgram with_followers(const BlockPlan& plan, const Grant& grant,
                            const BlockProgram& program);
/// Adds at the end of each turn the lessons of its input model and synthesizer,
/// each with the exchange of its gradients, if there is one.
BlockProgram with_lessons(const BlockPlan& plan, const Grant& grant,
                          const BlockProgram& program);
/// Keeps only the actions of that part of the turns.
BlockProgram only_part(const BlockPlan& plan, TurnPart part,
                       BlockProgram program);
/// Adds what the replicas sum for what follows the turns: as round
/// kAgreement of the exchange, of no batch.
BlockProgram with_agreement(const BlockPlan& plan, const Grant& grant,
                            BlockProgram program);
inline constexpr std::int64_t kAgreement = 1;
/// The round of the exchange that follows an update of parts of the weights.
inline constexpr std::int64_t kGather = 2;
/// Round of a second exchange of gradients before an update
/// (ReplicaExchange::rounds).
inline constexpr std::int64_t kSecondRound = 3;
/// Round in which all replicas send their weights to all, and adopt those of
/// one (ReplicaExchange::adopts).
inline constexpr std::int64_t kAdopt = 4;
/// Round in which a replica takes what a centre has made of several
/// (ReplicaExchange::quorum): a settle without an exchange of its own.
inline constexpr std::int64_t kMerged = 5;
/// Rounds in which replicas sum the gradients of a lesson: of the lower end
/// above the block, and of the upper end below it.
inline constexpr std::int64_t kLesson = 6;
inline constexpr std::int64_t kInputLesson = 7;
/// Whether the action is a lesson, or sums one.
bool is_of_lesson(const Action& action);
/// Adds the batches of an evaluation, after the turns, to replica 1.
BlockProgram with_evaluation(const BlockPlan& plan, const Grant& grant,
                             BlockProgram program);
/// Adds a checkpoint at the end.
BlockProgram with_saving(const Grant& grant, BlockProgram program);

}  // namespace sluice
