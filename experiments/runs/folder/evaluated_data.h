#pragma once

#include <string>

#include "experiments/config/experiment.h"

namespace sluice {

/// Data that a user has named for an evaluation of a run.
struct EvaluatedData {
  std::string split = {};      ///< "test", "training" or "validation"
  bool has_config = false;     ///< a config by its file
  bool has_overrides = false;  ///< keys of [data] or [limit]

  /// The other splits are what a run was trained on, or held back.
  bool is_meant() const {
    return has_config || (has_overrides && split == "test");
  }
};

/// Compares the data of an evaluation with those of the run whose config.toml
/// that is. Others that the user has named are reported on stderr; throws
/// UserError for others that were not, and for another split of the run's own.
void check_evaluated_data(const Experiment& experiment,
                          const std::string& config_of_its_run,
                          const EvaluatedData& named);

}  // namespace sluice
