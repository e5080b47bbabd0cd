#pragma once

#include <cstdint>
#include <vector>

#include "experiments/config/settings.h"
#include "lib/base/config.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

/// Throws UserError when the settings ask for blocks that run free together
/// with what needs turns that mean the same for all blocks.
void check_free_schedule(const Settings& settings, bool model_norm,
                         const Fields& top);

/// Throws UserError when accumulate.by_block doesn't go with the schedule, the
/// number of blocks, or the turns per update that phases have (`by_phase`).
void check_windows_of_blocks(const Settings& settings, int blocks,
                             const std::vector<std::int64_t>& by_phase,
                             const Fields& top);

/// Checks what the boundaries say, by phase of the timetable: buffers, and slow
/// consumers that drop activations, are of the whole run, lie in no
/// checkpoint, and give blocks other batches than those of their turns.
void check_free_plans(const Settings& settings, const Plans& plans,
                      const Fields& top);

}  // namespace sluice
