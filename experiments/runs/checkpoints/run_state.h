#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "experiments/config/experiment.h"
#include "experiments/config/reading/read_experiment.h"
#include "lib/metrics/records.h"

namespace sluice {

/// State of one of many runs, by its folder: a card's, or a sweep's.
struct RunState {
  enum class Kind {
    absent,      ///< no run
    begun,       ///< interrupted before its first checkpoint
    unfinished,  ///< interrupted: it can be continued
    done,
    other  ///< a run with another config, or on other data
  };
  Kind kind = Kind::absent;
  std::string difference = {};          ///< other: what differs first
  bool is_other_data = false;           ///< other: the config is the same
  records::Evaluation evaluation = {};  ///< done: the last one
  /// done, unfinished: run.json, what it was run with.
  nlohmann::ordered_json provenance = nlohmann::ordered_json::object();
};

/// Compares what stands in `folder` with an experiment, by what determines the
/// numbers. Throws UserError when a run that is done can't be read.
RunState state_of(const std::string& folder, const Experiment& experiment,
                  const std::string& data_root);

/// How the config of a run is read: read_experiment(), or what knows the layers
/// of a program with a loop of its own.
using ReadRun = std::function<Experiment(const ConfigNode& config)>;
/// State of a run, from its folder.
RunState state_of(const std::string& folder, const Experiment& experiment,
                  const ReadRun& read);
/// A reader that calls read_experiment() with that root.
ReadRun reader_with(const std::string& data_root);

/// The last evaluation of a run after that turn or before it.
std::optional<records::Evaluation> evaluation_until(const std::string& folder,
                                                    std::int64_t turn);

}  // namespace sluice
