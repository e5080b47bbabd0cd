#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "experiments/config/experiment.h"

namespace sluice {

/// What a run was run with, for run.json: command, versions, build, host, who
/// computes (maker.h), its data (data_identity.h), path and SHA-256 of its
/// plug-ins, and the commit of the folder that it was
/// started in. `started`: in seconds since 1970. Where git doesn't say the
/// commit, or what differs from it, `git` there says why; nothing does so where
/// there is no repository.
nlohmann::ordered_json provenance(const std::string& command,
                                  const Experiment& experiment, double started);

/// What run.json holds: an object, whose keys have the types that provenance()
/// gives them. Throws UserError that names file and key.
nlohmann::ordered_json read_provenance(const std::string& path);

/// "0.9.0".
std::string version_number();

/// "0.9.0 (commit 1a2b3c, LibTorch 2.13.0, Release)"; with the tag of the
/// version for a commit that has one, or follows one.
std::string version_text();

/// The commit that this program was built from: "build" in run.json.
std::string this_build();

/// Differences from the commit, as a patch; empty when nothing does, or the
/// folder is under no version control.
std::string uncommitted_changes();

}  // namespace sluice
