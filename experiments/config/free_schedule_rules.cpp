#include "experiments/config/free_schedule_rules.h"

#include <string>

namespace sluice {

void check_free_schedule(const Settings& settings, bool model_norm,
                         bool has_timetable, const Fields& top) {
  if (settings.schedule != "free") {
    if (settings.in_flight > 0)
      top.reject(
          "in_flight",
          "is for schedule = 'free'; in lockstep the policies decide it");
    return;
  }
  const auto refuse = [&](const char* key, const char* what) {
    top.reject(key, std::string(what) +
                        " needs turns that mean the same for all blocks: set "
                        "schedule = 'lockstep', or leave it out");
  };
  if (settings.on_failure == "restart")
    top.reject(
        "on_failure",
        "what blocks that run free had under way is in no checkpoint, so "
        "that a restart can't go on where they were: set 'stop', or "
        "schedule = 'lockstep'");
  if (settings.probe_every > 0) refuse("probe", "a probe");
  if (settings.barrier != "none") refuse("barrier", "a barrier");
  if (model_norm) refuse("optimizer", "clip.scope = 'model'");
  if (has_timetable) refuse("timetable", "a timetable");
}

}  // namespace sluice
