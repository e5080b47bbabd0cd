#include "experiments/runs/run_sink.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {

RunSink::RunSink(std::vector<std::shared_ptr<Sink>> sinks,
                 CheckpointKeeper& keeper)
    : sinks_(std::move(sinks)), keeper_(keeper) {}

void RunSink::recall(const std::vector<Record>& history) {
  for (const Record& record : history) {
    remember(record);
    seconds_before_ = std::max(seconds_before_, record.number("time", 0));
  }
}

void RunSink::remember(const Record& record) {
  const std::string kind = record.text("kind");
  if (kind == "train")
    turns_ = std::max<std::int64_t>(turns_,
                                    std::llround(record.number("turn", 0)) + 1);
  if (kind == "evaluation") {
    last_evaluation_ = record;
    keeper_.evaluated(record);
  }
  if (kind == "block")
    blocks_[static_cast<int>(record.number("block", 0))] = record;
  if (kind == "forecast")
    forecasts_[static_cast<int>(record.number("block", 0))] = record;
  if (kind == "dropped")
    dropped_[static_cast<int>(record.number("boundary", 0))] =
        record.integer("messages");
  if (kind == "clock")
    clock_[static_cast<int>(record.number("block", 0))] = record;
}

void RunSink::write(const Record& record) {
  remember(record);
  Record stamped = record;
  stamped.set("time", seconds_before_ + seconds_since(started_));
  for (const auto& sink : sinks_) sink->write(stamped);
}

}  // namespace sluice
