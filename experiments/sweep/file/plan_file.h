#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/sweep/file/cells.h"
#include "experiments/sweep/file/sweep.h"

namespace sluice::sweep {

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

/// The place of the cell that has these values, in whatever order; it is added
/// behind the others, without seeds, when there is none.
std::size_t put_cell(SweepPlan& plan, const std::vector<CellValue>& values);

std::string plan_file(const std::string& folder);
/// Throws UserError.
void write_plan(const std::string& folder, const SweepPlan& plan);

/// What write_plan() has written; nothing when there is no such file. Throws
/// UserError when it is damaged.
std::optional<SweepPlan> read_plan(const std::string& folder);

/// The plan with the ids and folders that its cells have in the folder's
/// sweep.json, in that order; new cells follow. The plan itself where there is
/// no such file. Throws UserError when the file has another plan that this one
/// doesn't merely add cells and seeds to.
SweepPlan placed(SweepPlan plan, const std::string& folder);

}  // namespace sluice::sweep
