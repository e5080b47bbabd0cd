#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/metrics/sink.h"

namespace sluice {

/// The timeline of blocks in threads or processes: keeps the records of
/// lib/worker_timeline.h, and passes all others on.
class TimelineRecord final : public Sink {
 public:
  TimelineRecord(int blocks, std::shared_ptr<Sink> next);

  void write(const Record& record) override;
  /// Into the folder's trace.json: a lane per block with its actions, within
  /// them its waits, the messages as arrows; what waits in queues, and the
  /// staleness of what is applied, as counters. Nothing when nothing was told.
  /// Throws UserError when that can't be written.
  void save(const std::string& folder) const;

 private:
  int blocks_;
  std::vector<Record> actions_;
  std::vector<Record> taken_;
  std::vector<Record> sent_;
  std::shared_ptr<Sink> next_;
};

}  // namespace sluice
