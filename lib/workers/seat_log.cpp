#include "lib/workers/seat_log.h"

#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// Accuracy of an evaluation; nothing where labels are no classes.
records::Figure accuracy_of(const Evaluation& evaluation) {
  if (!evaluation.has_accuracy()) return std::nullopt;
  return evaluation.accuracy();
}

/// R2 of an evaluation; nothing where labels are no numbers.
records::Figure r2_of(const Evaluation& evaluation) {
  if (!evaluation.has_r2()) return std::nullopt;
  return evaluation.r2();
}

}  // namespace

std::optional<int> replica_of(const BlockPlan& plan) {
  if (plan.exchange.members == 1) return std::nullopt;
  return plan.replica;
}

SeatLog::SeatLog(const BlockPlan& plan, std::shared_ptr<Sink> sink,
                 const Epochs& epochs, std::int64_t late_updates)
    : block_(plan.block),
      replica_(replica_of(plan)),
      sink_(std::move(sink)),
      epochs_(epochs),
      micro_batches_(plan.micro_batches),
      late_(late_updates) {}

void SeatLog::write(const Record& record) const {
  if (sink_) sink_->write(record);
}

records::BatchFields SeatLog::place_of(const Action& action) const {
  // The turn that the samples came from: readers of the metrics know turns, not
  // the batches that a turn is cut into.
  return {.turn = action.turn,
          .block = block_,
          .replica = replica_,
          .batch = micro_batches_.turn_of(action.batch)};
}

void SeatLog::applied(const Action& action, std::int64_t staleness,
                      BatchFigures figures) {
  staleness_ = staleness;
  if (figures.share < 1 && figures.loss.defined())
    figures.loss = figures.loss * figures.share;
  const bool goes_on = figures.share < 1 && said_turn_ == action.turn;
  said_turn_ = action.turn;
  figures_ =
      goes_on ? together(figures_, std::move(figures)) : std::move(figures);
  ++counts_["d_batch"][staleness];
}

void SeatLog::late_by(std::int64_t steps_between, std::int64_t batches) {
  steps_between_ = steps_between;
  counts_["d_upd"][steps_between] += batches;
}

void SeatLog::drew(const Action& forward, std::int64_t deal,
                   const std::vector<std::int64_t>& learned) const {
  if (!sink_ || learned.empty()) return;
  write(records::AssistedDraw{place_of(forward), deal,
                              fmt::to_string(fmt::join(learned, " "))});
}

void SeatLog::took(std::int64_t age, std::int64_t reuse) {
  ++counts_["input_age"][age];
  ++counts_["input_reuse"][reuse];
}

void SeatLog::updated(const Action& action, double learning_rate,
                      const at::Tensor& gradient_norm) {
  if (!sink_) return;
  records::Train train{place_of(action)};
  train.lr = learning_rate;
  train.d_batch = staleness_;
  train.d_upd = steps_between_;
  train.figures = figures_.figures;
  const auto labels = static_cast<double>(figures_.labels);
  Tensors figures = {figures_.loss, figures_.correct};
  if (gradient_norm.defined()) figures.push_back(gradient_norm);
  late_.add(figures,
            [sink = sink_, train, labels](const LateRecords::Values& read) {
              records::Train whole = train;
              whole.loss = read[0];
              if (read[1]) whole.accuracy = *read[1] / labels;
              if (read.size() > 2 && read[2])
                whole.figures.emplace_back("gradient_norm", *read[2]);
              sink->write(whole);
            });
}

void SeatLog::learned(const Action& action, std::string_view name,
                      const at::Tensor& loss) {
  if (!sink_ || !loss.defined()) return;
  late_.add({loss},
            [sink = sink_, place = place_of(action),
             name = std::string(name)](const LateRecords::Values& read) {
              sink->write(records::Lesson{place, {{name, read[0].value()}}});
            });
}

void SeatLog::evaluated(const Action& action, const Evaluation& test,
                        const Evaluation* validation,
                        const Evaluation* training) {
  settle();
  records::Evaluation evaluation{.turn = action.turn,
                                 .epoch = epochs_.at(action.turn),
                                 .loss = test.loss(),
                                 .accuracy = test.accuracy(),
                                 .r2 = r2_of(test)};
  if (validation != nullptr) {
    evaluation.validation_loss = validation->loss();
    evaluation.validation_accuracy = accuracy_of(*validation);
    evaluation.validation_r2 = r2_of(*validation);
  }
  if (training != nullptr) {
    evaluation.training_loss = training->loss();
    evaluation.training_accuracy = accuracy_of(*training);
    evaluation.training_r2 = r2_of(*training);
  }
  Record record(evaluation);
  if (!test.has_accuracy())
    std::erase_if(record.values, [](const auto& figure) {
      return figure.first == "accuracy";
    });
  write(record);
}

void SeatLog::status(const Action& action, double waiting, const Link& below,
                     const Link& above) const {
  write(records::Status{place_of(action), steady_seconds(), waiting,
                        waiting_bytes(below), waiting_bytes(above)});
}

void SeatLog::dropped(std::size_t messages) const {
  write(records::DropCount{.boundary = block_,
                           .messages = static_cast<std::int64_t>(messages)});
}

void SeatLog::lost(const Action& agreement, const CentreLoss& loss) const {
  write(records::CentreLoss{.turn = agreement.batch - 1,
                            .block = block_,
                            .replica = loss.member,
                            .place = loss.place,
                            .served = loss.served,
                            .merged = loss.merged,
                            .rests = loss.rests ? 1 : 0});
}

void SeatLog::hashed(const Action& action, const NamedTensors& gradients,
                     const NamedTensors& weights) {
  if (!sink_) return;
  records::Hash hash{place_of(action)};
  for (const auto& [name, tensor] : gradients)
    if (tensor.defined())
      hash.tensors.emplace_back("gradient of " + name, hash_of(tensor));
  for (const auto& [name, tensor] : weights)
    hash.tensors.emplace_back(name, hash_of(tensor));
  write(hash);
}

void SeatLog::staleness() const {
  for (const auto& [counter, counts] : counts_)
    for (const auto& [value, times] : counts)
      write(records::Staleness{block_, replica_, counter, value, times});
}

}  // namespace sluice
