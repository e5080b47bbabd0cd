#pragma once

#include <cstdint>
#include <functional>
#include <ios>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "lib/metrics/record.h"

namespace sluice {

/// Path of the file that a run writes its records into.
std::string metrics_of_run(const std::string& folder);
/// Path of the file for records that metrics.jsonl had no room for, until the
/// run is continued.
std::string rest_of_metrics(const std::string& folder);

/// Reads the records of a run, also while it writes them. What is but half a
/// line is none yet: a run that was killed may leave that. A file that has been
/// replaced, as by a run that is continued, is read from its start.
class RunReader {
 public:
  explicit RunReader(const std::string& run_folder)
      : path_(metrics_of_run(run_folder)) {}
  static RunReader of_file(std::string path) {
    RunReader reader;
    reader.path_ = std::move(path);
    return reader;
  }

  /// Calls `take` with the records that have come since the last call, in their
  /// order; with none where there is no file. Throws UserError that names a
  /// line that is damaged.
  void read(const std::function<void(const Record&)>& take);
  /// The records of one kind. A damaged line of any kind is an error: what it
  /// was can't be known.
  template <class T>
  std::vector<T> next();
  /// Whether what was read ended with the end of a line.
  bool is_whole() const { return is_whole_; }

 private:
  RunReader() = default;
  Record record_in(const std::string& line) const;

  std::string path_;
  ino_t file_ = 0;
  std::streamoff at_ = 0;
  std::int64_t line_ = 0;
  bool is_whole_ = true;
};

template <class T>
std::vector<T> RunReader::next() {
  std::vector<T> found;
  read([&](const Record& record) {
    if (auto said = record.as<T>()) found.push_back(*std::move(said));
  });
  return found;
}

}  // namespace sluice
