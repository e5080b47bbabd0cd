#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "experiments/experiment.h"

namespace sluice {

/// What a run was run with, for run.json: command, versions, build, host, and
/// the commit of the folder that it was started in. `started`: in seconds since
/// 1970.
nlohmann::ordered_json provenance(const std::string& command,
                                  const Experiment& experiment, double started);

/// The commit that this program was built from: "build" in run.json.
std::string this_build();

/// What differs from that commit, as a patch; empty when nothing does, or the
/// folder is under no version control.
std::string uncommitted_changes();

}  // namespace sluice
