#include "lib/workers/worker_log.h"

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

/// What is said of two batches of a turn, losses being weighted already.
Said together(const Said& before, Said now) {
  now.loss = sum_of(before.loss, now.loss);
  now.correct = sum_of(before.correct, now.correct);
  now.labels += before.labels;
  return now;
}

}  // namespace

WorkerLog::WorkerLog(int block, std::shared_ptr<Sink> sink,
                     std::int64_t turns_per_epoch,
                     const MicroBatches& micro_batches)
    : block_(block),
      sink_(std::move(sink)),
      turns_per_epoch_(turns_per_epoch),
      micro_batches_(micro_batches) {}

void WorkerLog::write(const Record& record) const {
  if (sink_) sink_->write(record);
}

Record WorkerLog::record_of(std::string_view kind, const Action& action) const {
  Record record;
  record.set("kind", std::string(kind));
  record.set("turn", action.turn);
  record.set("block", std::int64_t{block_});
  // Whose samples they were: readers know turns, not how they were cut.
  record.set("batch", micro_batches_.turn_of(action.batch));
  return record;
}

void WorkerLog::applied(const Action& action, std::int64_t staleness,
                        std::int64_t steps_between, Said said) {
  staleness_ = staleness;
  steps_between_ = steps_between;
  if (said.share < 1 && said.loss.defined()) said.loss = said.loss * said.share;
  const bool goes_on = said.share < 1 && said_turn_ == action.turn;
  said_turn_ = action.turn;
  said_ = goes_on ? together(said_, std::move(said)) : std::move(said);
  ++counts_["d_batch"][staleness];
  ++counts_["d_upd"][steps_between];
}

void WorkerLog::took(std::int64_t age, std::int64_t reuse) {
  ++counts_["input_age"][age];
  ++counts_["input_reuse"][reuse];
}

void WorkerLog::updated(const Action& action, double learning_rate) {
  if (!sink_) return;
  Record record = record_of("train", action);
  if (said_.loss.defined()) record.set("loss", said_.loss.item<double>());
  if (said_.correct.defined())
    record.set("accuracy", said_.correct.item<double>() /
                               static_cast<double>(said_.labels));
  record.set("lr", learning_rate);
  record.set("d_batch", staleness_);
  record.set("d_upd", steps_between_);
  for (const auto& [name, value] : said_.figures) record.set(name, value);
  write(record);
}

void WorkerLog::learned(const Action& action, std::string_view name,
                        const at::Tensor& loss) {
  if (!sink_ || !loss.defined()) return;
  Record record = record_of("lesson", action);
  record.set(name, loss.item<double>());
  write(record);
}

void WorkerLog::evaluated(const Action& action, const Evaluation& test,
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

void WorkerLog::status(const Action& action, double waiting, const Link& below,
                       const Link& above) const {
  Record record = record_of("status", action);
  record.set("clock", steady_seconds());
  record.set("waiting_s", waiting);
  record.set("queue_below_bytes", waiting_bytes(below));
  record.set("queue_above_bytes", waiting_bytes(above));
  write(record);
}

void WorkerLog::dropped(std::size_t messages) const {
  Record record;
  record.set("kind", "dropped");
  record.set("boundary", std::int64_t{block_});
  record.set("messages", static_cast<std::int64_t>(messages));
  write(record);
}

void WorkerLog::hashed(const Action& action, const NamedTensors& gradients,
                       const NamedTensors& weights) {
  if (!sink_) return;
  Record record = record_of("hash", action);
  for (const auto& [name, tensor] : gradients)
    if (tensor.defined()) record.set("gradient of " + name, hash_of(tensor));
  for (const auto& [name, tensor] : weights) record.set(name, hash_of(tensor));
  write(record);
}

void WorkerLog::staleness() const {
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
