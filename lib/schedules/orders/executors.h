#pragma once

#include <vector>

#include "lib/schedules/plan/plan.h"

namespace sluice {

// Executors are numbered from 0, those of replica 1 first. BlockPlan::placement
// says which blocks each has; usually it is one.

/// Style "loop": executor e of E has the blocks e+1, e+1+E, ...
Placement placed_in_loops(int blocks, int executors);
/// Style "v": executor e of K/2 has the blocks e+1 and K-e. K is even.
Placement placed_in_v(int blocks);

/// An action of one of an executor's seats.
struct SeatAction {
  int seat = 1;
  Action action = {};
};

/// BlockPlan::program of a block whose executor has an order: the block's own
/// of Placement::steps. A block from which no block below waits does a backward
/// whole, at its first half.
BlockProgram own_steps(const BlockPlan& plan, const Grant& grant);

int executors_of(const RunPlan& plan);
int executor_of(const RunPlan& plan, int seat);
/// Seats of an executor, the lowest block first.
std::vector<int> seats_of(const RunPlan& plan, int executor);

/// All seats of the seat's executor, and the lowest of them.
std::vector<int> seats_beside(const RunPlan& plan, int seat);
int first_beside(const RunPlan& plan, int seat);

/// Actions of an executor for a grant, in its order: those that actions_of()
/// has for each of its seats. Evaluation batches go through its seats one after
/// the other, so that neighbours with as many blocks don't wait for each other.
/// A seat waits for its replicas as late as it can: what they sum travels while
/// others of the executor's seats compute.
std::vector<SeatAction> executor_actions(const RunPlan& plan, int executor,
                                         const Grant& grant);

}  // namespace sluice
