#include "lib/updates/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {
namespace {

Names<RateSchedule> schedules() {
  Names<RateSchedule> names;
  for (const RateScheduleRow& row : rate_schedules())
    names.push_back({std::string(row.name), row.make});
  return names;
}

/// The point at `part` of the line from `from` to `to`.
double on_line(double from, double to, double part) {
  return from + (to - from) * part;
}

}  // namespace

std::span<const RateScheduleRow> rate_schedules() {
  static constexpr RateScheduleRow kRows[] = {
      {"constant", "the same rate after the warm-up", RateSchedule::constant},
      {"step", "multiplied by `factor` at each milestone", RateSchedule::step},
      {"cosine", "half a cosine, down to final_rate at the end",
       RateSchedule::cosine},
      {"linear", "a straight line, down to final_rate at the end",
       RateSchedule::linear},
      {"exponential", "multiplied by `decay` in each epoch",
       RateSchedule::exponential},
      {"warmup_stable_decay", "constant, then a line down to final_rate",
       RateSchedule::warmup_stable_decay},
  };
  return kRows;
}

std::string name_of(RateSchedule schedule) {
  return name_of(schedule, schedules());
}

bool depends_on_end(RateSchedule schedule) {
  return schedule == RateSchedule::cosine || schedule == RateSchedule::linear ||
         schedule == RateSchedule::warmup_stable_decay;
}

bool depends_on_epochs(RateSchedule schedule) {
  return schedule == RateSchedule::step ||
         schedule == RateSchedule::exponential;
}

void LearningRate::describe(Fields& fields) {
  fields.key("lr", base,
             {.text = "learning rate, before its schedule", .min = 0});
  fields.key(
      "lr_for_batch", for_batch,
      {.text = "the batch that lr is given for: a step by more samples, "
               "batch_size or with all_reduce batch_size times "
               "replicas.count, has a rate that is higher in proportion; 0: "
               "lr as it is",
       .unit = "samples",
       .min = 0,
       .max = 1e9});
  fields.section("schedule", "of the learning rate, by turn",
                 [&](Fields& own) { describe_schedule(own); });
}

void LearningRate::describe_schedule(Fields& fields) {
  fields.key("name", schedule, schedules(),
             {.text = "shape of the learning rate after the warm-up",
              .decides = true});
  fields.key("warmup_epochs", warmup_epochs,
             {.text = "epochs in which the rate rises linearly from 0",
              .unit = "epochs",
              .min = 0});
  fields.key("warmup_turns", warmup_turns,
             {.text = "the same in turns; above 0 it replaces warmup_epochs",
              .unit = "turns",
              .min = 0,
              .max = 1e12});
  if (schedule == RateSchedule::step) {
    fields.key("milestones", milestones,
               {.text = "epochs after which the rate is multiplied by `factor`",
                .unit = "epochs",
                .min = 0});
    fields.key("factor", factor,
               {.text = "factor that multiplies the rate at each milestone",
                .min = 0});
  }
  if (schedule == RateSchedule::exponential)
    fields.key("decay", decay,
               {.text = "factor that multiplies the rate in each epoch after "
                        "the warm-up, turn by turn: in half an epoch its root",
                .min = 0,
                .max = 1});
  if (schedule == RateSchedule::warmup_stable_decay)
    fields.key("cooldown", cooldown,
               {.text = "share of the run's turns, at its end, in which the "
                        "rate falls in a line to final_rate",
                .min = 0,
                .max = 1});
  if (depends_on_end(schedule))
    fields.key("final_rate", final_rate,
               {.text = "learning rate at the end", .min = 0});
}

void LearningRate::scale_to(std::int64_t batch) {
  if (for_batch == 0) return;
  const double scale =
      static_cast<double>(batch) / static_cast<double>(for_batch);
  base *= scale;
  final_rate *= scale;
}

double LearningRate::at(std::int64_t turn, std::int64_t turns,
                        const Epochs& epochs) const {
  // Turns are counted as in a run that has always had as many replicas.
  const std::int64_t last = std::min(turn, turns - 1);
  const double now = epochs.deals.turns_by(last);
  const double per_epoch = static_cast<double>(epochs.batches) /
                           static_cast<double>(epochs.deals.replicas);
  const double end = epochs.deals.turns_by(turns);
  const double warmup = warmup_turns > 0 ? static_cast<double>(warmup_turns)
                                         : warmup_epochs * per_epoch;
  if (now < warmup) return base * std::min(1.0, (now + 1) / warmup);
  // Part of the way from a turn to the end that is done.
  const auto part_since = [&](double start) {
    return end > start ? std::max(0.0, (now - start) / (end - start)) : 1.0;
  };
  switch (schedule) {
    case RateSchedule::constant:
      return base;
    case RateSchedule::step: {
      // Counted in batches: those of an epoch may be no whole number of turns.
      const auto batches = static_cast<double>(epochs.deals.by(last));
      const auto passed = std::count_if(
          milestones.begin(), milestones.end(), [&](double epoch) {
            return batches >= epoch * static_cast<double>(epochs.batches);
          });
      return base * std::pow(factor, static_cast<double>(passed));
    }
    case RateSchedule::cosine:
      return final_rate +
             0.5 * (base - final_rate) *
                 (1 + std::cos(std::numbers::pi * part_since(warmup)));
    case RateSchedule::linear:
      return on_line(base, final_rate, part_since(warmup));
    case RateSchedule::exponential:
      return base * std::pow(decay, (now - warmup) / per_epoch);
    case RateSchedule::warmup_stable_decay:
      return on_line(base, final_rate, part_since((1 - cooldown) * end));
  }
  return base;
}

}  // namespace sluice
