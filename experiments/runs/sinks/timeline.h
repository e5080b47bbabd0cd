#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/metrics/clock_offset.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// The timeline of blocks in threads or processes: keeps the records of
/// lib/workers/seat_timeline.h and of clocks, and passes all others on.
class TimelineRecord final : public Sink {
 public:
  TimelineRecord(const SeatNames& names, std::shared_ptr<Sink> next);

  void write(const Record& record) override;
  /// Into the folder's trace.json: a lane per block with its actions, within
  /// them its waits, the messages as arrows; what waits in queues, and the
  /// staleness of what is applied, as counters, all by the coordinator's clock.
  /// Nothing without records.
  /// Throws UserError when that can't be written.
  void save(const std::string& folder) const;

 private:
  /// The records with times by the coordinator's clock, in the order of their
  /// starts.
  template <class TimedRecord>
  std::vector<TimedRecord> in_order(std::vector<TimedRecord> told) const;

  SeatNames names_;
  std::vector<records::Action> actions_;
  std::vector<records::TakenMessage> taken_;
  std::vector<records::SentMessage> sent_;
  std::map<int, ClockOffset> clocks_;  // by block
  std::shared_ptr<Sink> next_;
};

}  // namespace sluice
