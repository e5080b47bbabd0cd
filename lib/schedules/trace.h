#pragma once

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <tuple>

#include "lib/schedules/simulation.h"

namespace sluice {

/// Writes a timeline as it comes, as trace events in JSON (Perfetto's
/// ui.perfetto.dev and chrome://tracing open it): a lane per block, an action
/// is a slice with its batch and turn as arguments, a message an arrow from the
/// slice that sends it to the one that takes it. Times are microseconds.
/// Format:
/// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
class TraceWriter {
 public:
  /// `out` must outlive it.
  TraceWriter(std::ostream& out, Plans plans);
  /// Ends the file.
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void write(const TimedAction& timed);

 private:
  using Key = std::tuple<MessageKind, int, int, std::int64_t>;

  void write_event(const std::string& json);
  void write_flow(char phase, std::int64_t id, const Transfer& transfer,
                  int block, double time);

  std::ostream& out_;
  Plans plans_;
  bool is_first_ = true;
  std::int64_t messages_ = 0;
  std::map<Key, std::int64_t> under_way_;
};

}  // namespace sluice
