#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/sweep/cells.h"
#include "experiments/sweep/sweep.h"

namespace sluice {

/// A cell with its place in the sweep's folder.
struct PlannedCell {
  std::string id = {};      ///< "001"
  std::string folder = {};  ///< "cells/001-local_loss-0.1"
  Cell cell = {};
  std::vector<std::int64_t> seeds = {};
};

/// What sweep.json says:
///
///   {"name": "...", "axes": ["optimizer.lr"],
///    "cells": [{"id": "001", "folder": "cells/001-0.1", "label": "lr=0.1",
///               "values": {"optimizer.lr": 0.1}, "seeds": [1, 2, 3]}]}
///
/// Nothing in it depends on when, where or how far the sweep was run.
struct SweepPlan {
  std::string name = {};
  std::vector<std::string> axes = {};
  std::vector<PlannedCell> cells = {};
};

SweepPlan plan_of(const Sweep& sweep);

nlohmann::ordered_json to_json(const SweepPlan& plan);

std::string plan_file(const std::string& folder);
/// Throws UserError.
void write_plan(const std::string& folder, const SweepPlan& plan);

/// The plan with the ids and folders that its cells have in the folder's
/// sweep.json, in that order; new cells follow. The plan itself where there is
/// no such file. Throws UserError when the file has another plan that this one
/// doesn't merely add cells and seeds to.
SweepPlan placed(SweepPlan plan, const std::string& folder);

}  // namespace sluice
