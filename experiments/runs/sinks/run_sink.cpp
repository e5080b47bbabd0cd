#include "experiments/runs/sinks/run_sink.h"

#include <algorithm>
#include <numbers>
#include <utility>

namespace sluice {

namespace {

/// The record, with its loss in nats per token also as bits per byte.
Record with_bits_per_byte(const Record& record, double bytes_per_token) {
  auto evaluation = record.as<records::Evaluation>();
  if (!evaluation || bytes_per_token <= 0) return record;
  Record whole = record;
  whole.set("bits_per_byte",
            evaluation->loss / std::numbers::ln2 / bytes_per_token);
  return whole;
}

}  // namespace

RunSink::RunSink(std::vector<std::shared_ptr<Sink>> sinks,
                 CheckpointKeeper& keeper, double bytes_per_token)
    : sinks_(std::move(sinks)),
      keeper_(keeper),
      bytes_per_token_(bytes_per_token) {}

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
  if (const auto dropped = record.as<records::DropCount>())
    dropped_[dropped->boundary] = dropped->messages;
  // Replica 1 stands for all replicas.
  if (const auto clock = record.as<records::Clock>();
      clock && clock->replica.value_or(1) == 1)
    clock_[clock->block.value_or(0)] = *clock;
}

void RunSink::write(const Record& record) {
  Record stamped = with_bits_per_byte(record, bytes_per_token_);
  remember(stamped);
  records::stamp(stamped, seconds_before_ + seconds_since(started_));
  for (const auto& sink : sinks_) sink->write(stamped);
}

}  // namespace sluice
