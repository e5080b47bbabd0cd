#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <ostream>
#include <string_view>
#include <utility>

#include "lib/metrics/clock_offset.h"
#include "lib/schedules/replicas/replicas.h"

namespace sluice {

/// Writes a timeline as it comes, as trace events in JSON (Perfetto's
/// ui.perfetto.dev and chrome://tracing open it): a lane per seat, the last
/// one on top. Times are seconds here, microseconds in the file. Format:
/// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
class TraceWriter {
 public:
  using Arguments =
      std::initializer_list<std::pair<std::string_view, std::int64_t>>;

  /// `out` must outlive it. Lanes are numbered as the seats of a plan.
  TraceWriter(std::ostream& out, SeatNames names);
  /// Ends the file.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  /// What the block did; slices of a lane lie within or beside each other.
  /// `name` is the same for all of a kind, so that viewers add them up;
  /// `action` tells this one from those ("F12"), as an argument.
  void slice(int block, std::string_view name, std::string_view category,
             double start, double end, std::string_view action,
             const Arguments& arguments = {});
  /// The two ends of a message's arrow, `id` being the message's own. Each
  /// belongs to the innermost slice that is open at its time.
  void sent(std::int64_t id, std::string_view name, int block, double time);
  void taken(std::int64_t id, std::string_view name, int block, double time);
  /// Writes under "otherData" by how much the clock of a block's lane is ahead,
  /// and whether its times were corrected for that.
  void clock(int block, const ClockOffset& clock);
  /// Records that a quantity of the block has this value from `time` on.
  void counter(int block, std::string_view name, double time, double value);

 private:
  void write_arrow(char phase, std::int64_t id, std::string_view name,
                   int block, double time);
  template <class Json>
  void write(const Json& event);

  std::ostream& out_;
  SeatNames names_;
  bool is_first_ = true;
  std::map<int, ClockOffset> clocks_;
};

}  // namespace sluice
