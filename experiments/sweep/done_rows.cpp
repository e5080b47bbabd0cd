#include "experiments/sweep/done_rows.h"

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

namespace sluice {
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

template <class T>
T number_of(const std::string& text, const std::string& place) {
  T value = 0;
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
  const auto label = column_of(heads, "label");
  const auto seed = column_of(heads, "seed");
  const auto state = column_of(heads, "state");
  if (!label || !seed || !state)
    throw UserError(
        "{}: has no columns label, seed and state; give a report_runs.csv of "
        "sluice report",
        file);
  while (!lines.is_over()) {
    const std::string place = lines.place();
    const Texts texts = lines.next();
    if (texts.size() == 1 && texts.front().empty()) continue;
    if (texts.size() != heads.size())
      throw UserError("{}: has {} columns, the first line {}", place,
                      texts.size(), heads.size());
    if (texts[*state] != "done") continue;
    const auto text_in = [&](std::string_view name) {
      const auto column = column_of(heads, name);
      return column ? texts[*column] : "";
    };
    const auto figure = [&](std::string_view name) {
      const std::string text = text_in(name);
      return text.empty() ? std::numeric_limits<double>::quiet_NaN()
                          : number_of<double>(text, place);
    };
    Row row{.place = place, .config = text_in("config")};
    row.evaluation.accuracy = figure("test_accuracy");
    row.evaluation.loss = figure("test_loss");
    rows_.insert_or_assign(
        {texts[*label], number_of<std::int64_t>(texts[*seed], place)},
        std::move(row));
  }
}

const DoneRows::Row* DoneRows::find(const std::string& label, std::int64_t seed,
                                    const Experiment& experiment) const {
  const auto found = rows_.find({label, seed});
  if (found == rows_.end()) return nullptr;
  const Row& row = found->second;
  if (!row.config.empty() &&
      row.config != fingerprint_of(numbers_of(experiment.resolved)))
    throw UserError(
        "{}: was made with another config, or by a program with other keys; "
        "take the row out to do the run again, or empty its column `config` to "
        "have it believed",
        row.place);
  return &row;
}

}  // namespace sluice
