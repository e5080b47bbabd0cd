#include "experiments/config/timetable.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "auxiliary_heads/heads.h"
#include "auxiliary_heads/predictors/predictors.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/per_block_tables.h"
#include "lib/base/plug_in.h"

namespace sluice {
namespace {

/// Lays a phase's table of boundaries over those before it.
void add_phase(const ConfigNode& written, const std::string& path,
               std::span<const PolicyRow> policies, int recut_in,
               Timetable& timetable) {
  const Boundaries& before = timetable.phases.back();
  const auto count = std::ssize(before);
  const auto [tables, ignored] = per_block_tables(
      &written, count, {.fresh = "policy", .recut_in = recut_in}, path);
  ConfigNode whole{.value = ConfigNode::Table{}, .origin = written.origin};
  for (std::int64_t k = 1; k <= count; ++k) {
    const ConfigNode* own = tables.find(std::to_string(k));
    const ConfigNode& old = before[static_cast<std::size_t>(k) - 1].config;
    whole.set(std::to_string(k),
              own->find("policy") ? *own : merged(old, *own));
  }
  Boundaries phase;
  Fields fields(&whole, path);
  for (std::int64_t k = 1; k <= count; ++k)
    fields.section(std::to_string(k), "", [&](Fields& part) {
      if (part.has("codec"))
        part.reject("codec",
                    "holds for the whole run: say it in [boundary], not in a "
                    "phase of the timetable");
      phase.push_back(read_policy(part, policies));
    });
  fields.finish();
  for (std::size_t i = 0; i < phase.size(); ++i)
    phase[i].config = *fields.resolved().find(std::to_string(i + 1));
  timetable.phases.push_back(std::move(phase));
  timetable.ignored.insert(timetable.ignored.end(), ignored.begin(),
                           ignored.end());
  for (const DroppedKey& key : fields.dropped())
    if (key.place != Origin{}.text()) timetable.dropped.push_back(key);
}

SwitchSettings read_switch(Fields& fields) {
  SwitchSettings when;
  fields.key("epoch", when.epoch,
             {.text = "epochs after which this phase begins",
              .unit = "epochs",
              .min = 0,
              .max = 1e6});
  fields.key("turn", when.turn,
             {.text = "or the turns after which it begins",
              .unit = "turns",
              .min = 0,
              .max = 1e12});
  fields.key(
      "accuracy", when.accuracy,
      {.text =
           "or the accuracy: begins after the first evaluation that is as high",
       .min = 0,
       .max = 1});
  fields.key(
      "loss", when.loss,
      {.text = "or the loss: begins after the first evaluation that is as low",
       .min = 0,
       .max = 1e9});
  return when;
}

void check_switch(const SwitchSettings& when, const Fields& fields) {
  const int given = int{when.epoch > 0} + int{when.turn > 0} +
                    int{when.accuracy > 0} + int{when.loss > 0};
  if (given != 1)
    fields.reject("epoch",
                  "a phase begins at an epoch, a turn, an accuracy or a loss: "
                  "give one of them");
}

/// Reads `repeat`, which is absent from the resolved config of a phase, as from
/// those of older runs.
std::optional<std::int64_t> read_repeat(Fields& fields) {
  ConfigNode written;
  fields.key("repeat", written, "integer",
             {.text = "in place of what changes: from then on all that is "
                      "before it comes again from the beginning, that many "
                      "times",
              .unit = "times"});
  if (written.value.index() == 0) return std::nullopt;
  const auto* times = std::get_if<std::int64_t>(&written.value);
  if (times == nullptr || *times < 1)
    fields.reject("repeat", "how many times more: give a number above 0");
  return *times;
}

/// Most phases of a timetable: each has ends of all boundaries.
constexpr std::int64_t kMostPhases = 10000;

void check_repeat(const SwitchSettings& when, std::int64_t times,
                  const Fields& fields, const Timetable& timetable) {
  for (const char* key : {"boundary", "accumulate"})
    if (fields.has(key))
      fields.reject(key,
                    "phases repeat as they are: leave out either this or "
                    "repeat");
  if (timetable.switches.empty())
    fields.reject("repeat",
                  "there is nothing to repeat but the first phase: write the "
                  "others before it");
  const bool is_by_epochs = when.epoch > 0;
  const auto is_in_its_unit = [&](const SwitchSettings& each) {
    return is_by_epochs ? each.epoch > 0 : each.turn > 0;
  };
  if (!is_in_its_unit(when) ||
      !std::all_of(timetable.switches.begin(), timetable.switches.end(),
                   is_in_its_unit))
    fields.reject("repeat",
                  "phases that repeat begin at times known before: give an "
                  "epoch for this and for each of them, or a turn for all");
  const std::int64_t most = kMostPhases / std::ssize(timetable.phases) - 1;
  if (times > most)
    fields.reject("repeat",
                  fmt::format("{} times would make more than {} phases: set it "
                              "to {} or less",
                              times, kMostPhases, most));
}

/// Repeats all phases so far, so many times one behind the other, as if they
/// were written there.
void repeat_phases(const SwitchSettings& when, std::int64_t times,
                   Timetable& timetable) {
  const Timetable once = timetable;
  for (std::int64_t time = 1; time <= times; ++time)
    for (std::size_t i = 0; i < once.phases.size(); ++i) {
      SwitchSettings begins = i == 0 ? SwitchSettings{} : once.switches[i - 1];
      begins.epoch += static_cast<double>(time) * when.epoch;
      begins.turn += time * when.turn;
      timetable.switches.push_back(begins);
      timetable.phases.push_back(once.phases[i]);
      timetable.accumulate.push_back(once.accumulate[i]);
    }
}

}  // namespace

PlugIns plug_ins() {
  return {heads(), configure_synthesizer, configure_input_model};
}

BoundaryPolicy read_policy(Fields& fields,
                           std::span<const PolicyRow> policies) {
  BoundaryPolicy policy{.name = "backprop"};
  policy.make = choose(fields, "policy", policies, policy.name, "policy")
                    .make.configure(fields, plug_ins());
  return policy;
}

Timetable read_timetable(Fields& top, FirstPhase first,
                         std::span<const PolicyRow> policies, int recut_in) {
  Timetable timetable;
  timetable.phases.push_back(std::move(first.boundaries));
  timetable.accumulate.push_back(first.accumulate);
  top.list("timetable",
           "later phases of the training, with other policies or more turns "
           "per update",
           [&](Fields& fields, std::int64_t index) {
             const SwitchSettings when = read_switch(fields);
             const std::optional<std::int64_t> repeat = read_repeat(fields);
             if (index >= 0) check_switch(when, fields);
             if (repeat) {
               check_repeat(when, *repeat, fields, timetable);
               repeat_phases(when, *repeat, timetable);
               return;
             }
             ConfigNode written;
             fields.key("boundary", written, "table",
                        {.text = "the keys that change, for all or numbered "
                                 "for one"});
             std::int64_t accumulate = timetable.accumulate.back();
             fields.key("accumulate", accumulate,
                        {.text = "turns per update from now on, in place of "
                                 "accumulate.batches: a larger batch where a "
                                 "schedule would lower the rate (Smith et al. "
                                 "2018)",
                         .unit = "turns",
                         .min = 1,
                         .max = 1e6});
             if (index < 0) return;
             const bool is_same = written.value.index() == 0;
             if (is_same && !fields.has("accumulate"))
               fields.reject("boundary", "a phase says what changes");
             timetable.switches.push_back(when);
             timetable.accumulate.push_back(accumulate);
             if (is_same)
               timetable.phases.push_back(Boundaries(timetable.phases.back()));
             else
               add_phase(written, fmt::format("timetable[{}].boundary", index),
                         policies, recut_in, timetable);
           });
  return timetable;
}

std::vector<Switch> switches_of(
    const Timetable& timetable,
    const std::function<std::int64_t(double epochs)>& turns_of, bool evaluates,
    const Fields& top) {
  std::vector<Switch> switches;
  std::int64_t last = 0;
  for (const SwitchSettings& when : timetable.switches) {
    Switch next;
    if (when.accuracy > 0 || when.loss > 0) {
      const bool is_loss = when.loss > 0;
      next.measure.name = is_loss ? "loss" : "accuracy";
      next.threshold = is_loss ? when.loss : when.accuracy;
      if (!evaluates)
        top.reject("timetable",
                   "a phase that begins at an accuracy or a loss needs "
                   "evaluations on the way: evaluate_every is 0");
    } else {
      next.turn = when.turn > 0 ? when.turn : turns_of(when.epoch);
      if (next.turn <= last)
        top.reject("timetable",
                   fmt::format("its phases begin one after another: turn {} "
                               "does not come after turn {}",
                               next.turn, last));
      last = next.turn;
    }
    switches.push_back(next);
  }
  return switches;
}

}  // namespace sluice
