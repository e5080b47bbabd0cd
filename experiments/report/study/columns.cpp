#include "experiments/report/study/columns.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "experiments/report/study/figures_until.h"
#include "experiments/report/study/measured_figure.h"
#include "experiments/report/study/scale.h"
#include "lib/base/by_block.h"

namespace sluice::report {
namespace {

using Value = std::optional<double>;

Value in_summary(const RunRecord& run, Value records::Summary::*figure) {
  return run.summary ? *run.summary.*figure : std::nullopt;
}

/// The seconds of a run that was continued are those of all its parts.
Value seconds_of(const RunRecord& run) {
  return in_summary(run, run.was_continued ? &records::Summary::time
                                           : &records::Summary::seconds);
}

Value of_turns(const RunRecord& run, const std::optional<TurnWork>& work,
               WorkInTurns amount) {
  if (!work) return std::nullopt;
  return amount(*work, run.turns);
}

/// Nothing where processes sent a part before these: they count their own.
Value boundary_bytes(const RunRecord& run) {
  double bytes = 0;
  for (const auto& [number, block] : run.blocks)
    bytes += static_cast<double>(block.up_bytes.value_or(0) +
                                 block.down_bytes.value_or(0));
  const bool is_whole = !run.was_continued && !run.was_restarted;
  return bytes > 0 && is_whole ? Value(bytes) : std::nullopt;
}

std::vector<MeasuredFigure> measures() {
  using Work = const std::optional<TurnWork>&;
  using Run = const RunRecord&;
  return {
      {{.name = "test_accuracy",
        .title = "test accuracy",
        .unit = "%",
        .scale = 100,
        .higher_is_better = true},
       [](Run run, Work) { return run.judged(run.accuracy); }},
      {{.name = "test_loss", .title = "test loss", .digits = 4},
       [](Run run, Work) { return run.judged(run.loss); }},
      {{.name = "test_r2",
        .title = "test R²",
        .digits = 4,
        .higher_is_better = true},
       [](Run run, Work) { return run.judged(run.r2); }},
      {{.name = "test_bits_per_byte", .title = "bits per byte", .digits = 4},
       [](Run run, Work) { return run.judged(run.bits_per_byte); }},
      {{.name = "validation_accuracy",
        .title = "validation accuracy",
        .unit = "%",
        .scale = 100,
        .higher_is_better = true},
       [](Run run, Work) { return run.judged(run.validation_accuracy); }},
      {{.name = "validation_loss", .title = "validation loss", .digits = 4},
       [](Run run, Work) { return run.judged(run.validation_loss); }},
      {{.name = "validation_r2",
        .title = "validation R²",
        .digits = 4,
        .higher_is_better = true},
       [](Run run, Work) { return run.judged(run.validation_r2); }},
      {{.name = "training_accuracy",
        .title = "training accuracy",
        .unit = "%",
        .scale = 100,
        .higher_is_better = true,
        .note = "training accuracy and loss: at evaluations, of the samples "
                "that data.evaluate_training counts"},
       [](Run run, Work) { return run.judged(run.known_accuracy); }},
      {{.name = "training_loss", .title = "training loss", .digits = 4},
       [](Run run, Work) { return run.judged(run.known_loss); }},
      {{.name = "turns", .title = "turns", .digits = 0, .is_derived = true},
       [](Run run, Work) { return Value(static_cast<double>(run.turns)); }},
      {{.name = "flops",
        .title = "computed",
        .unit = "FLOP",
        .is_derived = true,
        .note = "computed: forward, backward (twice a forward) and replays of "
                "the model's layers, and the matrix products and convolutions "
                "of auxiliary heads, synthesizers and input models, by their "
                "shapes"},
       [](Run run, Work work) { return of_turns(run, work, flops_in); }},
      {{.name = "sequential_flops",
        .title = "sequential",
        .unit = "FLOP",
        .is_derived = true,
        .note = "sequential: those of the operations computed that must follow "
                "each other, with a device for each block (or executor) and "
                "messages that take no time, in the steady state"},
       [](Run run, Work work) {
         return of_turns(run, work, sequential_flops_in);
       }},
      {{.name = "bytes_sent",
        .title = "sent",
        .unit = "B",
        .is_derived = true,
        .note = "sent: activations, labels and gradients that cross boundaries "
                "to train, and what all replicas send each other for updates, "
                "by their shapes, codecs and compressor"},
       [](Run run, Work work) { return of_turns(run, work, bytes_sent_in); }},
      {{.name = "boundary_bytes",
        .title = "over boundaries",
        .unit = "B",
        .note = "over boundaries: messages of training of the first replica, "
                "as they were sent, labels among them; of runs in one piece"},
       [](Run run, Work) { return boundary_bytes(run); }},
      {{.name = "seconds", .title = "time", .unit = "s", .is_measured = true},
       [](Run run, Work) { return seconds_of(run); }},
      {{.name = "samples_per_second",
        .title = "samples/s",
        .higher_is_better = true,
        .is_measured = true},
       [](Run run, Work) {
         return in_summary(run, &records::Summary::samples_per_second);
       }},
      {{.name = "tokens_per_second",
        .title = "tokens/s",
        .higher_is_better = true,
        .is_measured = true},
       [](Run run, Work) {
         return in_summary(run, &records::Summary::tokens_per_second);
       }},
      {{.name = "share_of_peak",
        .title = "share of peak",
        .unit = "%",
        .scale = 100,
        .higher_is_better = true,
        .is_measured = true,
        .note = "share of peak: operations per second of the model's layers, "
                "forward and backward, over those of a large float32 matrix "
                "product on all cores"},
       [](Run run, Work) {
         return in_summary(run, &records::Summary::share_of_peak);
       }},
      {{.name = "virtual_seconds",
        .title = "virtual time",
        .unit = "s",
        .is_measured = true,
        .note =
            "virtual time: by the clock of [virtual], as if every block had "
            "a machine of its own"},
       [](Run run, Work) {
         return in_summary(run, &records::Summary::virtual_seconds);
       }},
      {{.name = "peak_memory_bytes",
        .title = "peak memory",
        .unit = "B",
        .is_measured = true,
        .note = "peak memory: the sum of the peaks of the blocks, those of all "
                "replicas alike"},
       [](Run run, Work) { return peak_bytes(run); }},
  };
}

std::vector<double> known(const std::vector<Value>& values) {
  std::vector<double> found;
  for (const Value& value : values)
    if (value) found.push_back(*value);
  return found;
}

Column column_of(const Study& study, const MeasuredFigure& measure,
                 const std::vector<std::optional<TurnWork>>& work) {
  Column column{.figure = measure.figure};
  for (std::size_t i = 0; i < study.cells.size(); ++i) {
    std::vector<Value> values;
    int censored = 0;
    for (const RunRecord& run : study.cells[i].runs) {
      values.push_back(run.is_done() ? measure.of(run, work[i]) : std::nullopt);
      if (measure.is_censored && run.is_done() && measure.is_censored(run))
        ++censored;
    }
    // The mean of those that came there would be that of the lucky ones.
    column.spreads.push_back(censored > 0 ? Spread{}
                                          : spread_of(known(values)));
    column.values.push_back(std::move(values));
    column.censored.push_back(censored);
  }
  return column;
}

/// Number of digits that tell the largest of the means from its neighbours.
int digits_for(double largest) {
  if (largest >= 1000) return 0;
  if (largest >= 100) return 1;
  return largest >= 10 ? 2 : 3;
}

/// Bytes in MiB, operations in TFLOP: so that means are below some thousands.
void choose_unit(Column& column) {
  double largest = 0;
  for (const Spread& spread : column.spreads)
    if (std::isfinite(spread.mean)) largest = std::max(largest, spread.mean);
  Figure& figure = column.figure;
  if (figure.unit == "B" || figure.unit == "FLOP") {
    const Scale scale =
        figure.unit == "B" ? binary_scale(largest) : decimal_scale(largest);
    figure.scale = 1 / scale.divisor;
    figure.unit = scale.prefix + figure.unit;
  }
  if (figure.name.ends_with("_accuracy") || figure.name.ends_with("_loss") ||
      figure.name.ends_with("_r2") || figure.name == "test_bits_per_byte" ||
      figure.name == "turns")
    return;
  figure.digits = digits_for(largest * figure.scale);
}

void find_winner(const Study& study, Column& column) {
  if (column.figure.name == "turns") return;  // fewer turns are no aim
  std::vector<Competitor> competitors;
  for (std::size_t i = 0; i < study.cells.size(); ++i)
    competitors.push_back(
        {.spread = column.spreads[i],
         .may_win = study.cells[i].count(RunRecord::State::failed) == 0});
  column.winner = clear_winner(competitors, column.figure.higher_is_better);
}

/// Whether the column has the same number everywhere: all runs did the same
/// number of turns, as they should.
bool says_nothing(const Column& column) {
  if (column.figure.name != "turns") return false;
  std::set<double> different;
  for (const auto& runs : column.values)
    for (const Value& turns : runs)
      if (turns) different.insert(*turns);
  return different.size() < 2;
}

bool is_empty(const Column& column) {
  return std::all_of(column.spreads.begin(), column.spreads.end(),
                     [](const Spread& spread) { return spread.n == 0; });
}

}  // namespace

std::string Figure::heading() const {
  return unit.empty() ? title : fmt::format("{}, {}", title, unit);
}

std::string Column::text(std::size_t cell) const {
  const int never = cell < censored.size() ? censored[cell] : 0;
  if (never > 0)
    return fmt::format("never ({} of {})", never,
                       never + std::ssize(known(values[cell])));
  Spread scaled = spreads[cell];
  if (figure.is_derived && scaled.n > 1 && scaled.std == 0)
    return fmt::format("{:.{}f} ({})", scaled.mean * figure.scale,
                       figure.digits, scaled.n);
  scaled.mean *= figure.scale;
  scaled.std *= figure.scale;
  return text_of(scaled, figure.digits);
}

std::vector<Column> columns_of(const Study& study,
                               const std::vector<std::optional<TurnWork>>& work,
                               bool only_numbers,
                               const std::optional<Target>& target) {
  std::vector<MeasuredFigure> all = measures();
  if (target)
    for (MeasuredFigure& until : figures_until(*target))
      all.push_back(std::move(until));
  std::vector<Column> columns;
  for (const MeasuredFigure& measure : all) {
    if (only_numbers && measure.figure.is_measured) continue;
    Column column = column_of(study, measure, work);
    // A figure that no cell has is left out, but not one that every cell should
    // have.
    if (is_empty(column) && measure.figure.name != "test_accuracy") continue;
    if (says_nothing(column)) continue;
    choose_unit(column);
    find_winner(study, column);
    columns.push_back(std::move(column));
  }
  return columns;
}

const Column* find_column(const std::vector<Column>& columns,
                          const std::string& name) {
  const auto at = std::find_if(
      columns.begin(), columns.end(),
      [&](const Column& column) { return column.figure.name == name; });
  return at == columns.end() ? nullptr : &*at;
}

const Column& column_to_choose_by(const std::vector<Column>& columns,
                                  const Column& figure) {
  std::string name = figure.figure.name;
  constexpr std::string_view kTest = "test_";
  if (!name.starts_with(kTest)) return figure;
  const Column* other =
      find_column(columns, name.replace(0, kTest.size(), "validation_"));
  if (other == nullptr) return figure;
  for (std::size_t i = 0; i < figure.spreads.size(); ++i)
    if (other->spreads[i].n < figure.spreads[i].n) return figure;
  return *other;
}

std::string split_to_choose_by(const std::vector<Column>& columns) {
  const Column* test = find_column(columns, "test_accuracy");
  return test == nullptr || &column_to_choose_by(columns, *test) == test
             ? "test"
             : "validation";
}

std::optional<double> peak_bytes(const RunRecord& run) {
  double sum = 0;
  const std::vector<std::int64_t> by_block = run.replicas_by_block();
  for (const auto& [block, cost] : run.blocks) {
    if (!cost.memory.peak_bytes) return std::nullopt;
    const std::int64_t* own = find_by_block(by_block, block);
    sum += static_cast<double>(*cost.memory.peak_bytes) *
           static_cast<double>(own != nullptr ? *own : run.replicas());
  }
  if (run.blocks.empty()) return std::nullopt;
  return sum;
}

}  // namespace sluice::report
