#include "experiments/config/rules/echo_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/timetable.h"
#include "experiments/data/order/echo.h"
#include "lib/base/by_block.h"

namespace sluice {
namespace {

/// Whether a boundary's option, if it has it, is that text.
bool says(const BoundaryPolicy& boundary, std::string_view option,
          std::string_view text) {
  const ConfigNode* const node = boundary.config.find(option);
  const auto* value =
      node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return value != nullptr && *value == text;
}

bool is_of_echo(const BoundaryPolicy& boundary) {
  return says(boundary, "memory", "echo");
}

bool is_weights_first(const BoundaryPolicy& boundary) {
  return says(boundary, "order", "weights_first");
}

/// A phase of the timetable, in turns.
struct PhaseTurns {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool is_known = true;  ///< false: an evaluation decides
};

std::vector<PhaseTurns> turns_of_phases(const RunLength& length) {
  std::vector<PhaseTurns> all = {{.end = length.turns}};
  for (const Switch& next : length.switches) {
    PhaseTurns phase{.begin = next.turn,
                     .end = length.turns,
                     .is_known = !next.on_measure()};
    if (phase.is_known)
      all.back().end = std::min(next.turn, length.turns);
    else
      all.back().is_known = false;
    all.push_back(phase);
  }
  return all;
}

/// Checks the phases of one boundary.
class EchoPhases {
 public:
  EchoPhases(const Experiment& experiment, int block, const Echo& echo,
             const Fields& top)
      : experiment_(experiment),
        block_(block),
        echo_(echo),
        top_(top),
        turns_(turns_of_phases(experiment.length)) {}

  void check() const {
    for (std::size_t i = 0; i < turns_.size(); ++i)
      if (turns_[i].begin < experiment_.length.turns) check_phase(i);
  }

 private:
  const BoundaryPolicy& boundary(std::size_t phase) const {
    return by_block(experiment_.phases[phase], block_);
  }

  [[noreturn]] void refuse(const std::string& text) const {
    top_.reject("timetable", fmt::format("boundary {}: {}", block_, text));
  }

  void check_phase(std::size_t i) const {
    const BoundaryPolicy& now = boundary(i);
    if (!is_of_echo(now) || !is_weights_first(now)) return;
    const PhaseTurns& phase = turns_[i];
    if (!phase.is_known)
      refuse(
          "'weights_first' with memory = 'echo' begins behind the first pass "
          "over an echo, and an evaluation decides here: let phases begin at "
          "a turn");
    const std::int64_t in_echo = phase.begin % echo_.turns();
    const std::int64_t first = phase.begin - in_echo;
    if (in_echo < echo_.batches)
      refuse(fmt::format(
          "at turn {} 'weights_first' begins with batches that come for the "
          "first time and have no z: begin with another order, and go over at "
          "turn {}",
          phase.begin, first + echo_.batches));
    if (phase.end > first + echo_.turns())
      refuse(
          fmt::format("'weights_first' goes on at turn {}, where the next "
                      "echo begins and has no z: let a phase in another "
                      "order begin there, as `repeat` does",
                      first + echo_.turns()));
    check_first_pass(i, first);
  }

  /// The variables that phase i begins with are left by the first pass over its
  /// echo, which begins at turn `first`.
  void check_first_pass(std::size_t i, std::int64_t first) const {
    std::size_t p = i;
    while (turns_[p].begin > first) --p;
    for (; p < i && turns_[p].begin < first + echo_.batches; ++p)
      if (!is_of_echo(boundary(p)) || is_weights_first(boundary(p)))
        refuse(fmt::format(
            "the pass from turn {} on leaves no z for the 'weights_first' of "
            "turn {}: give it memory = 'echo' too, and another order",
            std::max(turns_[p].begin, first), turns_[i].begin));
  }

  const Experiment& experiment_;
  int block_;
  const Echo& echo_;
  const Fields& top_;
  std::vector<PhaseTurns> turns_;
};

void check_memory(const Experiment& experiment, const BoundaryPolicy& boundary,
                  int block, const Echo& echo, const Fields& top) {
  const auto refuse = [&](const char* text) {
    top.reject("boundary", fmt::format("boundary {}: {}", block, text));
  };
  if (echo.is_on() && says(boundary, "memory", "sample"))
    refuse(
        "with data.echo a sample comes several times, and then for long no "
        "more: set memory = 'echo' in place of 'sample'");
  if (!is_of_echo(boundary)) return;
  if (!echo.is_on())
    refuse(
        "memory = 'echo' keeps z until a batch comes again, and none does: "
        "set data.echo.times to 2 or more, or memory = 'batch'");
  if (experiment.replicas.count > 1)
    refuse(
        "memory = 'echo' keeps z for all batches of an echo, and replicas "
        "share them out: set replicas.count = 1");
}

/// A sample has a number of its echo, which is another one's later.
void check_codec(const Experiment& experiment, int block, const Echo& echo,
                 const Fields& top) {
  const BoundaryCodecs codecs = codecs_above(experiment, block);
  if (echo.is_on() && codecs.up && codecs.up->wants_samples())
    top.reject("boundary",
               fmt::format("boundary {}: codec '{}' keeps the last activation "
                           "of every sample, and with data.echo a sample comes "
                           "several times, and then for long no more: choose "
                           "another codec, or leave data.echo out",
                           block, codecs.up->name()));
}

}  // namespace

void check_echo(const Experiment& experiment, const Fields& top) {
  const Echo echo = echo_in(top.resolved());
  if (echo.is_on() && experiment.assist.is_on())
    top.reject("data",
               "assist draws each batch from samples that have not come, and "
               "echo has batches come again: leave one of them out");
  for (const Boundaries& phase : experiment.phases)
    for (int block = 1; block < experiment.blocks(); ++block)
      check_memory(experiment, by_block(phase, block), block, echo, top);
  for (int block = 1; block < experiment.blocks(); ++block)
    check_codec(experiment, block, echo, top);
  for (int block = 1; block < experiment.blocks(); ++block)
    EchoPhases(experiment, block, echo, top).check();
}

}  // namespace sluice
