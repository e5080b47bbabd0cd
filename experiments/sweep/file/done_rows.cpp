#include "experiments/sweep/file/done_rows.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "experiments/config/numbers.h"
#include "lib/base/error.h"

namespace sluice::sweep {
namespace {

using Texts = std::vector<std::string>;

/// The lines of a CSV file by RFC 4180, each with the number that it begins at.
class CsvLines {
 public:
  explicit CsvLines(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw UserError("can't read {}: is it there?", path);
    text_.assign(std::istreambuf_iterator<char>(file), {});
    if (file.bad()) throw UserError("can't read {}", path);
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // of spreadsheets
  }

  bool is_over() const { return at_ == text_.size(); }
  std::string place() const { return fmt::format("{}:{}", path_, line_); }

  Texts next() {
    Texts texts(1);
    const std::size_t begin = line_;
    while (!is_over() && !ends_line())
      if (text_[at_] == '"')
        read_quoted(texts.back(), begin);
      else if (const char c = text_[at_++]; c == ',')
        texts.emplace_back();
      else
        texts.back() += c;
    return texts;
  }

 private:
  bool ends_line() {
    if (text_[at_] == '\r') ++at_;
    if (is_over() || text_[at_] != '\n') return is_over();
    ++at_;
    ++line_;
    return true;
  }

  void read_quoted(std::string& to, std::size_t begin) {
    for (++at_; !is_over(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      const bool is_quote = text_[at_] == '"';
      const bool is_doubled =
          is_quote && at_ + 1 < text_.size() && text_[at_ + 1] == '"';
      if (is_quote) ++at_;
      if (is_quote && !is_doubled) return;
      to += text_[at_];
    }
    throw UserError("{}:{}: a quoted text doesn't end", path_, begin);
  }

  std::string path_;
  std::string text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

std::optional<std::size_t> column_of(const Texts& heads,
                                     std::string_view name) {
  const auto found = std::find(heads.begin(), heads.end(), name);
  if (found == heads.end()) return std::nullopt;
  return static_cast<std::size_t>(found - heads.begin());
}

double number_of(const std::string& text, const std::string& place) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end)
    throw UserError("{}: '{}' is no number", place, text);
  return value;
}

}  // namespace

DoneRows::DoneRows(const std::vector<std::string>& files) {
  for (const std::string& file : files) read(file);
}

void DoneRows::read(const std::string& file) {
  CsvLines lines(file);
  const Texts heads = lines.next();
  const auto config = column_of(heads, "config");
  const auto state = column_of(heads, "state");
  if (!config || !state)
    throw UserError(
        "{}: has no columns config and state; give a report_runs.csv of sluice "
        "report",
        file);
  while (!lines.is_over()) {
    const std::string place = lines.place();
    const Texts texts = lines.next();
    if (texts.size() == 1 && texts.front().empty()) continue;
    if (texts.size() != heads.size())
      throw UserError("{}: has {} columns, the first line {}", place,
                      texts.size(), heads.size());
    if (texts[*state] != "done") continue;
    const auto figure = [&](std::string_view name) {
      const auto column = column_of(heads, name);
      return column && !texts[*column].empty()
                 ? number_of(texts[*column], place)
                 : std::numeric_limits<double>::quiet_NaN();
    };
    records::Evaluation evaluation;
    evaluation.accuracy = figure("test_accuracy");
    evaluation.loss = figure("test_loss");
    rows_.insert_or_assign(texts[*config], evaluation);
  }
}

const records::Evaluation* DoneRows::find(const Experiment& experiment) const {
  const auto found =
      rows_.find(fingerprint_of(numbers_of(experiment.resolved)));
  return found == rows_.end() ? nullptr : &found->second;
}

}  // namespace sluice::sweep
