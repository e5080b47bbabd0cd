#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lib/base/config.h"

namespace sluice {

/// Effect of another value of a key on a run that is resumed with it.
enum class ResumeEffect : std::uint8_t {
  free,    ///< no number of the run changes
  anew,    ///< numbers are others from the first resumed turn on
  refused  ///< what was trained and counted before would mean another thing
};
/// Name of a class: "free", "anew" or "refused".
std::string_view name_of(ResumeEffect on_resume);

/// Class of a key, or of all keys below a table that have no row of their own.
struct ResumeClass {
  std::string_view path = {};  ///< the form that holds for all blocks
  ResumeEffect on_resume = ResumeEffect::anew;
  std::string_view meaning = {};  ///< what the change does; may be empty
};

/// Row of a key ("optimizer.2.lr"): that of the longest path. `is_text`: its
/// value is a text or a list of texts, so that keys of [data] that name files
/// can be told from numbers of samples. nullptr: no row is on the way.
const ResumeClass* find_resume_class(std::string_view path, bool is_text);

/// The keys for config_manual(), each with its class.
std::vector<KeyDoc> with_resume_classes(std::vector<KeyDoc> docs);

/// Explains the classes: three lines below the manual.
std::string_view resume_classes_text();

}  // namespace sluice
