#include "lib/updates/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace sluice {
namespace {

Names<RateSchedule> schedules() {
  return {{"constant", RateSchedule::constant},
          {"step", RateSchedule::step},
          {"cosine", RateSchedule::cosine}};
}

}  // namespace

std::string name_of(RateSchedule schedule) {
  return name_of(schedule, schedules());
}

void LearningRate::describe(Fields& fields) {
  fields.key("lr", base,
             {.text = "learning rate, before its schedule", .min = 0});
  fields.key(
      "lr_for_batch", for_batch,
      {.text = "the batch that lr is given for: turns with more samples, "
               "batch_size times replicas.count, have a rate that is "
               "higher in proportion; 0: lr as it is",
       .unit = "samples",
       .min = 0,
       .max = 1e9});
  fields.section("schedule", "of the learning rate, by turn", [&](Fields& s) {
    s.key("name", schedule, schedules(),
          {.text = "shape of the learning rate after the warm-up",
           .decides = true});
    s.key("warmup_epochs", warmup_epochs,
          {.text = "epochs in which the rate rises linearly from 0",
           .unit = "epochs",
           .min = 0});
    if (schedule == RateSchedule::step) {
      s.key("milestones", milestones,
            {.text = "epochs after which the rate is multiplied by `factor`",
             .unit = "epochs",
             .min = 0});
      s.key("factor", factor,
            {.text = "factor that multiplies the rate at each milestone",
             .min = 0});
    }
    if (schedule == RateSchedule::cosine)
      s.key("final_rate", final_rate,
            {.text = "learning rate at the end", .min = 0});
  });
}

void LearningRate::scale_to(std::int64_t batch) {
  if (for_batch == 0) return;
  const double factor =
      static_cast<double>(batch) / static_cast<double>(for_batch);
  base *= factor;
  final_rate *= factor;
}

double LearningRate::at(std::int64_t turn, std::int64_t turns,
                        std::int64_t turns_per_epoch) const {
  const auto now = static_cast<double>(std::min(turn, turns - 1));
  const auto per_epoch = static_cast<double>(turns_per_epoch);
  const double warmup = warmup_epochs * per_epoch;
  if (now < warmup) return base * std::min(1.0, (now + 1) / warmup);
  if (schedule == RateSchedule::step) {
    const auto passed =
        std::count_if(milestones.begin(), milestones.end(),
                      [&](double epoch) { return now >= epoch * per_epoch; });
    return base * std::pow(factor, static_cast<double>(passed));
  }
  if (schedule == RateSchedule::cosine) {
    const double length = static_cast<double>(turns) - warmup;
    const double part = length > 0 ? (now - warmup) / length : 1;
    return final_rate +
           0.5 * (base - final_rate) * (1 + std::cos(std::numbers::pi * part));
  }
  return base;
}

}  // namespace sluice
