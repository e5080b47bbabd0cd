#pragma once

#include "experiments/config/reading/start_checks.h"

namespace sluice::at_start {

// Rows of start_checks(): what each finds is its row's name.

// start_lengths.cpp: keys against the length of the run.
StartFaults no_update(const Experiment& experiment);
StartFaults turns_in_no_update(const Experiment& experiment);
StartFaults stop_never_comes(const Experiment& experiment);
StartFaults phase_never_begins(const Experiment& experiment);
StartFaults milestone_never_comes(const Experiment& experiment);
StartFaults warm_up_never_ends(const Experiment& experiment);
StartFaults evaluated_at_the_end_only(const Experiment& experiment);
StartFaults saved_at_the_end_only(const Experiment& experiment);
StartFaults trace_never_begins(const Experiment& experiment);
StartFaults average_of_first_weights(const Experiment& experiment);

// start_effects.cpp: keys that others leave without effect.
StartFaults group_matches_nothing(const Experiment& experiment);
StartFaults nothing_to_correct(const Experiment& experiment);
StartFaults nothing_to_view(const Experiment& experiment);
StartFaults nothing_to_exchange(const Experiment& experiment);
StartFaults nothing_to_clip(const Experiment& experiment);
StartFaults nothing_to_keep(const Experiment& experiment);
StartFaults no_processes(const Experiment& experiment);
StartFaults nothing_to_share(const Experiment& experiment);
StartFaults limit_above_size(const Experiment& experiment);

// start_batches.cpp: layers and batches that don't go together.
StartFaults one_sample_to_normalise(const Experiment& experiment);
StartFaults no_image_left(const Experiment& experiment);
StartFaults no_label_left(const Experiment& experiment);
StartFaults bf16_computed_in_fp32(const Experiment& experiment);
StartFaults bf16_not_there(const Experiment& experiment);

/// A fault for each block whose options have one, `find` says which; where all
/// blocks have the same, one for all.
template <class Find>
StartFaults of_optimizers(const Experiment& experiment, const std::string& key,
                          const Find& find) {
  StartFaults all;
  bool is_common = true;
  for (std::size_t i = 0; i < experiment.optimizers.size(); ++i) {
    const std::string text = find(experiment.optimizers[i]);
    is_common = is_common && !text.empty() &&
                (all.empty() ? i == 0 : all.front().text == text);
    if (!text.empty())
      all.push_back({"optimizer." + std::to_string(i + 1) + "." + key, text});
  }
  if (is_common && !all.empty()) return {{"optimizer." + key, all[0].text}};
  return all;
}

}  // namespace sluice::at_start
