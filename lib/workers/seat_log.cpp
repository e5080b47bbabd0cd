#include "lib/workers/seat_log.h"

#include <utility>

#include <ATen/ATen.h>

#include "lib/metrics/clock_offset.h"
#include "lib/metrics/hash.h"
#include "lib/tensors/waiting_bytes.h"

namespace sluice {
namespace {

at::Tensor sum_of(const at::Tensor& left, const at::Tensor& right) {
  return left.defined() && right.defined() ? left + right : right;
}

/// Figures of two batches of a turn, losses being weighted already.
BatchFigures together(const BatchFigures& before, BatchFigures now) {
  now.loss = sum_of(before.loss, now.loss);
  now.correct = sum_of(before.correct, now.correct);
  now.labels += before.labels;
  return now;
}

}  // namespace

SeatLog::SeatLog(int block, std::shared_ptr<Sink> sink,
                 std::int64_t turns_per_epoch,
                 const MicroBatches& micro_batches)
    : block_(block),
      sink_(std::move(sink)),
      turns_per_epoch_(turns_per_epoch),
      micro_batches_(micro_batches) {}

void SeatLog::write(const Record& record) const {
  if (sink_) sink_->write(record);
}

Record SeatLog::record_of(std::string_view kind, const Action& action) const {
  Record record;
  record.set("kind", std::string(kind));
  record.set("turn", action.turn);
  record.set("block", std::int64_t{block_});
  // The turn that the samples came from: readers of the metrics know turns, not
  // the batches that a turn is cut into.
  record.set("batch", micro_batches_.turn_of(action.batch));
  return record;
}

void SeatLog::applied(const Action& action, std::int64_t staleness,
                      std::int64_t steps_between, BatchFigures figures) {
  staleness_ = staleness;
  steps_between_ = steps_between;
  if (figures.share < 1 && figures.loss.defined())
    figures.loss = figures.loss * figures.share;
  const bool goes_on = figures.share < 1 && said_turn_ == action.turn;
  said_turn_ = action.turn;
  figures_ =
      goes_on ? together(figures_, std::move(figures)) : std::move(figures);
  ++counts_["d_batch"][staleness];
  ++counts_["d_upd"][steps_between];
}

void SeatLog::took(std::int64_t age, std::int64_t reuse) {
  ++counts_["input_age"][age];
  ++counts_["input_reuse"][reuse];
}

void SeatLog::updated(const Action& action, double learning_rate) {
  if (!sink_) return;
  Record record = record_of("train", action);
  if (figures_.loss.defined()) record.set("loss", figures_.loss.item<double>());
  if (figures_.correct.defined())
    record.set("accuracy", figures_.correct.item<double>() /
                               static_cast<double>(figures_.labels));
  record.set("lr", learning_rate);
  record.set("d_batch", staleness_);
  record.set("d_upd", steps_between_);
  for (const auto& [name, value] : figures_.figures) record.set(name, value);
  write(record);
}

void SeatLog::learned(const Action& action, std::string_view name,
                      const at::Tensor& loss) {
  if (!sink_ || !loss.defined()) return;
  Record record = record_of("lesson", action);
  record.set(name, loss.item<double>());
  write(record);
}

void SeatLog::evaluated(const Action& action, const Evaluation& test,
                        const Evaluation* validation) {
  Record record;
  record.set("kind", "evaluation");
  record.set("turn", action.turn);
  record.set("epoch", static_cast<double>(action.turn) /
                          static_cast<double>(turns_per_epoch_));
  record.set("loss", test.loss());
  record.set("accuracy", test.accuracy());
  if (validation != nullptr) {
    record.set("validation_loss", validation->loss());
    record.set("validation_accuracy", validation->accuracy());
  }
  write(record);
}

void SeatLog::status(const Action& action, double waiting, const Link& below,
                     const Link& above) const {
  Record record = record_of("status", action);
  record.set("clock", steady_seconds());
  record.set("waiting_s", waiting);
  record.set("queue_below_bytes", waiting_bytes(below));
  record.set("queue_above_bytes", waiting_bytes(above));
  write(record);
}

void SeatLog::dropped(std::size_t messages) const {
  Record record;
  record.set("kind", "dropped");
  record.set("boundary", std::int64_t{block_});
  record.set("messages", static_cast<std::int64_t>(messages));
  write(record);
}

void SeatLog::hashed(const Action& action, const NamedTensors& gradients,
                     const NamedTensors& weights) {
  if (!sink_) return;
  Record record = record_of("hash", action);
  for (const auto& [name, tensor] : gradients)
    if (tensor.defined()) record.set("gradient of " + name, hash_of(tensor));
  for (const auto& [name, tensor] : weights) record.set(name, hash_of(tensor));
  write(record);
}

void SeatLog::staleness() const {
  for (const auto& [counter, counts] : counts_)
    for (const auto& [value, times] : counts) {
      Record record;
      record.set("kind", "staleness");
      record.set("block", std::int64_t{block_});
      record.set("counter", counter);
      record.set("value", value);
      record.set("times", times);
      write(record);
    }
}

}  // namespace sluice
