#include "experiments/runs/run_sink.h"

#include <algorithm>
#include <utility>

namespace sluice {

RunSink::RunSink(std::vector<std::shared_ptr<Sink>> sinks,
                 CheckpointKeeper& keeper)
    : sinks_(std::move(sinks)), keeper_(keeper) {}

void RunSink::recall(const std::vector<Record>& history) {
  for (const Record& record : history) {
    remember(record);
    seconds_before_ = std::max(seconds_before_,
                               record.read<records::Place>().time.value_or(0));
  }
}

void RunSink::remember(const Record& record) {
  if (const auto train = record.as<records::Train>())
    turns_ = std::max(turns_, train->turn + 1);
  if (const auto evaluation = record.as<records::Evaluation>()) {
    last_evaluation_ = evaluation;
    keeper_.evaluated(*evaluation);
  }
  if (const auto block = record.as<records::Block>())
    blocks_[{block->replica.value_or(1), block->block}] = *block;
  if (const auto forecast = record.as<records::Forecast>())
    forecasts_[forecast->block] = *forecast;
  if (const auto dropped = record.as<records::Dropped>())
    dropped_[dropped->boundary] = dropped->messages;
  // Of the replicas the first stands for all.
  if (const auto clock = record.as<records::Clock>();
      clock && clock->replica.value_or(1) == 1)
    clock_[clock->block.value_or(0)] = *clock;
}

void RunSink::write(const Record& record) {
  remember(record);
  Record stamped = record;
  records::stamp(stamped, seconds_before_ + seconds_since(started_));
  for (const auto& sink : sinks_) sink->write(stamped);
}

}  // namespace sluice
