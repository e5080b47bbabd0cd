#include "experiments/report/sections/table_files.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "experiments/config/numbers.h"

namespace sluice::report {
namespace {

const char* text_of(RunRecord::State state) {
  switch (state) {
    case RunRecord::State::done:
      return "done";
    case RunRecord::State::unfinished:
      return "unfinished";
    case RunRecord::State::failed:
      return "failed";
    case RunRecord::State::absent:
      return "not begun";
  }
  return "";
}

std::string quoted_for_csv(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

/// The shortest text that reads back as the same number.
std::string number_for_csv(double value) {
  return fmt::format("{}", value);
}

std::string row_of(const std::vector<std::string>& texts) {
  std::string row;
  for (std::size_t i = 0; i < texts.size(); ++i)
    row += (i == 0 ? "" : ",") + quoted_for_csv(texts[i]);
  return row + '\n';
}

/// Columns that say what a cell is, in both CSV files.
std::vector<std::string> names_of_cell(const Study& study) {
  std::vector<std::string> names = {"cell", "label", "method"};
  for (const std::string& axis : study.axes) names.push_back(axis);
  return names;
}

std::vector<std::string> texts_of_cell(const StudyCell& cell) {
  std::vector<std::string> texts = {cell.id, cell.label, cell.method};
  for (const std::string& value : cell.values) texts.push_back(value);
  return texts;
}

std::string for_markdown(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    // A line break or bar would end the row, the others begin something.
    if (c == '\n' || c == '\r') {
      escaped += ' ';
      continue;
    }
    if (std::string_view("\\|*_`<>&[]").find(c) != std::string_view::npos)
      escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string markdown_row(const std::vector<std::string>& texts) {
  std::string row = "|";
  for (const std::string& text : texts) row += " " + text + " |";
  return row + '\n';
}

std::string failures_in_markdown(const Study& study) {
  std::string text;
  for (const StudyCell& cell : study.cells)
    for (const RunRecord& run : cell.runs)
      if (run.state == RunRecord::State::failed)
        text +=
            fmt::format("- {}, seed {}: failed: {}\n", for_markdown(cell.label),
                        run.seed, for_markdown(run.error));
  return text.empty() ? "" : "\n" + text;
}

}  // namespace

std::string choice_note(const Study& study) {
  bool any_best = false;
  std::string by_test;
  for (const StudyCell& cell : study.cells) {
    const auto runs = cell.runs_to_draw();
    any_best = any_best ||
               std::any_of(runs.begin(), runs.end(), [](const RunRecord* run) {
                 return run->chosen_turn.has_value();
               });
    if (std::any_of(runs.begin(), runs.end(), [](const RunRecord* run) {
          return !run->chosen_by_test.empty();
        }))
      by_test += (by_test.empty() ? "" : "; ") + cell.label;
  }
  std::string note =
      any_best ? "Runs are judged by checkpoints/best, which the validation "
                 "split chose, or else by their last evaluation."
               : "Runs are judged by their last evaluation.";
  if (!by_test.empty())
    note += fmt::format(
        " The test split itself chose when to stop (early_stop without "
        "data.validation), so these look better than they are: {}.",
        by_test);
  return note;
}

std::string makers_note(const Study& study, std::size_t most_named) {
  std::string names;
  std::size_t count = 0;
  for (const StudyCell& cell : study.cells) {
    const std::string mixed = cell.mixed_makers();
    if (mixed.empty() || ++count > most_named) continue;
    names +=
        fmt::format("{}{} ({})", names.empty() ? "" : "; ", cell.label, mixed);
  }
  if (count == 0) return "";
  if (count > most_named)
    names += fmt::format("; and {} more", count - most_named);
  return fmt::format(
      "Mixed makers: the runs of these rows were not all computed alike, so "
      "their spread is not that of seeds alone: {}.",
      names);
}

std::string sharing_note(const Study& study, const std::vector<Column>& columns,
                         std::size_t most_named) {
  if (std::none_of(columns.begin(), columns.end(), [](const Column& column) {
        return column.figure.is_measured;
      }))
    return "";
  std::string names;
  std::size_t count = 0;
  for (const StudyCell& cell : study.cells) {
    if (!cell.shared_machine()) continue;
    ++count;
    names += (names.empty() ? "" : "; ") + cell.label;
  }
  if (count == 0) return "";
  if (count == study.cells.size())
    names = "all cells";
  else if (count > most_named)
    names = fmt::format("{} of {} cells, where the table says so", count,
                        study.cells.size());
  return fmt::format(
      "Shared: runs were on one machine at the same time, and their times and "
      "rates are not those of a run alone: {}.",
      names);
}

std::string runs_text(const StudyCell& cell) {
  using State = RunRecord::State;
  std::string text =
      fmt::format("{} of {}", cell.count(State::done), cell.runs.size());
  for (const State state : {State::failed, State::unfinished, State::absent})
    if (const int count = cell.count(state); count > 0)
      text += fmt::format(", {} {}", count, text_of(state));
  if (const int early = cell.stopped_early(); early > 0)
    text += fmt::format(", {} stopped early", early);
  if (!cell.mixed_makers().empty()) text += ", mixed makers";
  return text;
}

std::string markdown_of(const Study& study,
                        const std::vector<Column>& columns) {
  std::vector<std::string> heads = {"cell", "runs"};
  std::vector<std::string> rule = {"---", "---"};
  for (const Column& column : columns) {
    heads.push_back(column.figure.heading());
    rule.emplace_back("---:");
  }
  std::string text = fmt::format("# {}\n\n", for_markdown(study.title)) +
                     markdown_row(heads) + markdown_row(rule);
  for (std::size_t i = 0; i < study.cells.size(); ++i) {
    const StudyCell& cell = study.cells[i];
    const bool failed = cell.count(RunRecord::State::failed) > 0;
    std::vector<std::string> row = {
        for_markdown(cell.label),
        failed ? fmt::format("**{}**", runs_text(cell)) : runs_text(cell)};
    for (const Column& column : columns)
      row.push_back(column.winner == i ? fmt::format("**{}**", column.text(i))
                                       : column.text(i));
    text += markdown_row(row);
  }
  text +=
      "\nMean ± standard deviation (runs). Bold: better than every other cell "
      "by more than one standard deviation of either.\n";
  for (const Column& column : columns)
    if (!column.figure.note.empty())
      text += fmt::format("\n{}.\n", column.figure.note);
  text += fmt::format("\n{}\n", for_markdown(choice_note(study)));
  if (const std::string makers = makers_note(study, study.cells.size());
      !makers.empty())
    text += fmt::format("\n{}\n", for_markdown(makers));
  if (const std::string sharing =
          sharing_note(study, columns, study.cells.size());
      !sharing.empty())
    text += fmt::format("\n{}\n", for_markdown(sharing));
  return text + failures_in_markdown(study);
}

std::string csv_of(const Study& study, const std::vector<Column>& columns) {
  std::vector<std::string> heads = names_of_cell(study);
  for (const char* name : {"runs", "done", "failed"}) heads.emplace_back(name);
  const bool any_mixed =
      std::any_of(study.cells.begin(), study.cells.end(),
                  [](const StudyCell& c) { return !c.mixed_makers().empty(); });
  if (any_mixed) heads.emplace_back("mixed_makers");
  for (const Column& column : columns)
    for (const char* part : {"mean", "std", "n"})
      heads.push_back(fmt::format("{}_{}", column.figure.name, part));
  std::string text = row_of(heads);
  for (std::size_t i = 0; i < study.cells.size(); ++i) {
    const StudyCell& cell = study.cells[i];
    std::vector<std::string> row = texts_of_cell(cell);
    row.push_back(fmt::format("{}", cell.runs.size()));
    row.push_back(fmt::format("{}", cell.count(RunRecord::State::done)));
    row.push_back(fmt::format("{}", cell.count(RunRecord::State::failed)));
    if (any_mixed) row.push_back(cell.mixed_makers());
    for (const Column& column : columns) {
      const Spread& spread = column.spreads[i];
      row.push_back(spread.n > 0 ? number_for_csv(spread.mean) : "");
      row.push_back(spread.n > 1 ? number_for_csv(spread.std) : "");
      row.push_back(fmt::format("{}", spread.n));
    }
    text += row_of(row);
  }
  return text;
}

std::string csv_of_runs(const Study& study,
                        const std::vector<Column>& columns) {
  std::vector<std::string> heads = names_of_cell(study);
  heads.emplace_back("seed");
  heads.emplace_back("state");
  heads.emplace_back("config");
  for (const Column& column : columns) heads.push_back(column.figure.name);
  std::string text = row_of(heads);
  for (std::size_t i = 0; i < study.cells.size(); ++i)
    for (std::size_t r = 0; r < study.cells[i].runs.size(); ++r) {
      const RunRecord& run = study.cells[i].runs[r];
      std::vector<std::string> row = texts_of_cell(study.cells[i]);
      row.push_back(fmt::format("{}", run.seed));
      row.emplace_back(text_of(run.state));
      row.push_back(run.config ? fingerprint_of(numbers_of(*run.config)) : "");
      for (const Column& column : columns) {
        const std::optional<double>& value = column.values[i][r];
        row.push_back(value ? number_for_csv(*value) : "");
      }
      text += row_of(row);
    }
  return text;
}

}  // namespace sluice::report
