#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/config/experiment.h"
#include "experiments/config/manual/resume_classes.h"

namespace sluice {

/// A key that has another value than the run had.
struct KeyChange {
  std::string path = {};    ///< "optimizer.lr" where it changes for all blocks
  std::string before = {};  ///< as in TOML, or "absent"
  std::string now = {};
  std::string place = {};  ///< where `now` was written
  ResumeClass row = {};
};

/// Keys that the experiment says other things of than the config of the run,
/// which may be older than some keys. Under another cut what differs between
/// blocks is compared as a set.
std::vector<KeyChange> changed_keys(const ConfigNode& before,
                                    const Experiment& now);

/// The change as text: "batch_size = 16, before 64".
std::string values_text(const KeyChange& change);
/// One line: values, class, and what the change does from `turn` on.
std::string text_of(const KeyChange& change, std::int64_t turn);

/// Throws UserError for the first change that is refused. `checkpoint`: what a
/// run that shall have it may begin with.
void refuse_changes(std::span<const KeyChange> changes,
                    const std::string& checkpoint);

}  // namespace sluice
