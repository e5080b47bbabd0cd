#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/metrics/clock_offset.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// The timeline of blocks in threads or processes: keeps the records of
/// lib/workers/seat_timeline.h and lib/metrics/clock_offset.h, and passes all
/// others on.
class TimelineRecord final : public Sink {
 public:
  TimelineRecord(int blocks, std::shared_ptr<Sink> next);

  void write(const Record& record) override;
  /// Into the folder's trace.json: a lane per block with its actions, within
  /// them its waits, the messages as arrows; what waits in queues, and the
  /// staleness of what is applied, as counters, all by the coordinator's clock.
  /// Nothing when nothing was told.
  /// Throws UserError when that can't be written.
  void save(const std::string& folder) const;

 private:
  /// The records with times by the coordinator's clock, in the order of their
  /// starts.
  std::vector<Record> in_order(const std::vector<Record>& records) const;

  int blocks_;
  std::vector<Record> actions_;
  std::vector<Record> taken_;
  std::vector<Record> sent_;
  std::map<int, ClockOffset> clocks_;  // by block
  std::shared_ptr<Sink> next_;
};

}  // namespace sluice
