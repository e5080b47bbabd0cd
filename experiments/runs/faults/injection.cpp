#include "experiments/runs/faults/injection.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

using Kind = Injection::Kind;
using Moment = Injection::Moment;

struct Form {
  std::string_view first;  ///< the word that it begins with
  Kind what;
  std::string_view form;
  std::string_view text;
};

constexpr std::array kForms = {
    Form{"kill", Kind::kill, "kill block K @ WHEN",
         "the worker process of block K gets SIGKILL, as when memory runs out"},
    Form{"stop", Kind::stop, "stop block K @ WHEN",
         "the worker process gets SIGSTOP: it exists, but sends nothing"},
    Form{"hang", Kind::hang, "hang block K @ WHEN",
         "the worker goes on sending heartbeats, but does nothing else"},
    Form{"delay", Kind::delay, "delay A->B TIME",
         "every message from block A to block B arrives later by TIME: 20ms, "
         "0.5s"},
    Form{"slow", Kind::slow, "slow block K xFACTOR",
         "computing takes FACTOR times as long (x1.5); waiting does not"},
    Form{"corrupt", Kind::corrupt, "corrupt A->B @ TURN",
         "a bit flips in a frame from block A to block B, after its checksums "
         "were computed"},
    Form{"fail", Kind::fail_checkpoint, "fail checkpoint @ TURN",
         "block 1 can't write its part of the first checkpoint at or after "
         "that turn, as on a full disk"},
};

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

/// Words; "@" is one whether there are blanks around it or not.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\t' || c == '\n';
    if (!is_blank && c != '@')
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
    if (c == '@') {
      words.back() = c;
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number = {};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

/// Reads one fault, word by word.
class Parser {
 public:
  Parser(std::vector<std::string> words, int blocks)
      : words_(std::move(words)), blocks_(blocks) {
    for (const std::string& word : words_)
      written_ += (written_.empty() ? "" : " ") + word;
  }

  Injection parse() {
    form_ = &form();
    Injection injection{.what = form_->what, .text = written_};
    switch (form_->what) {
      case Kind::kill:
      case Kind::stop:
      case Kind::hang:
        read_block(injection);
        read_when(injection);
        break;
      case Kind::delay:
        read_link(injection);
        injection.delay = time();
        break;
      case Kind::slow:
        read_block(injection);
        injection.factor = factor();
        break;
      case Kind::corrupt:
        read_link(injection);
        read_turn(injection);
        break;
      case Kind::fail_checkpoint:
        word("checkpoint");
        injection.block = 1;
        read_turn(injection);
        break;
    }
    if (next_ < words_.size())
      refuse(fmt::format("'{}' is too much", words_[next_]));
    return injection;
  }

 private:
  const Form& form() {
    const std::string first = take("a fault");
    std::vector<std::string> names;
    for (const Form& form : kForms) {
      if (form.first == first) return form;
      names.emplace_back(form.first);
    }
    throw UserError(
        "--inject '{}': '{}' is no fault{}; there are {}: see sluice help "
        "inject",
        written_, first, perhaps(first, names), joined(names));
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw UserError("--inject '{}': {}; the form is: {}", written_, why,
                    form_->form);
  }

  std::string take(const char* wanted) {
    if (next_ < words_.size()) return words_[next_++];
    if (form_ == nullptr)
      throw UserError("--inject: {} is missing; see sluice help inject",
                      wanted);
    refuse(fmt::format("{} is missing", wanted));
  }

  void word(const char* wanted) {
    const std::string found = take(wanted);
    if (found != wanted)
      refuse(fmt::format("'{}' stands where '{}' should", found, wanted));
  }

  int block(std::string_view text) const {
    const auto number = number_of<int>(text);
    if (!number || *number < 1 || *number > blocks_)
      refuse(fmt::format("'{}' is no block; there are 1 to {}", text, blocks_));
    return *number;
  }

  void read_block(Injection& injection) {
    word("block");
    injection.block = block(take("the number of a block"));
  }

  void read_link(Injection& injection) {
    const std::string link = take("A->B");
    const std::size_t arrow = link.find("->");
    if (arrow == link.npos)
      refuse(fmt::format("'{}' is no link between blocks, such as 1->2", link));
    injection.block = block(link.substr(0, arrow));
    injection.to = block(link.substr(arrow + 2));
    if (std::abs(injection.block - injection.to) != 1)
      refuse(fmt::format("blocks {} and {} are no neighbours", injection.block,
                         injection.to));
  }

  std::int64_t turn() {
    const std::string text = take("the number of a turn");
    const auto number = number_of<std::int64_t>(text);
    if (!number || *number < 0)
      refuse(fmt::format("'{}' is no turn: a whole number from 0", text));
    return *number;
  }

  /// Reads "@ 40", "@ turn 40".
  void read_turn(Injection& injection) {
    word("@");
    if (next_ < words_.size() &&
        (words_[next_] == "turn" || words_[next_] == "step"))
      ++next_;
    injection.turn = turn();
  }

  /// "@ 40", "@ turn 40", "@ start", "@ evaluation 40", "@ checkpoint 40".
  void read_when(Injection& injection) {
    const std::string when = next_ + 1 < words_.size() ? words_[next_ + 1] : "";
    if (when != "start" && when != "evaluation" && when != "checkpoint")
      return read_turn(injection);
    word("@");
    ++next_;
    injection.when = when == "start"        ? Moment::start
                     : when == "evaluation" ? Moment::evaluation
                                            : Moment::checkpoint;
    if (injection.when != Moment::start) injection.turn = turn();
  }

  std::chrono::microseconds time() {
    const std::string text = take("a time");
    const bool in_ms = text.ends_with("ms");
    const bool in_s = !in_ms && text.ends_with("s");
    const auto number = number_of<double>(
        std::string_view(text).substr(0, text.size() - (in_ms ? 2 : 1)));
    if ((!in_ms && !in_s) || !number || !(*number > 0) || *number > 1e6)
      refuse(fmt::format("'{}' is no time, such as 20ms or 0.5s", text));
    return std::chrono::microseconds(
        std::llround(*number * (in_ms ? 1e3 : 1e6)));
  }

  double factor() {
    const std::string text = take("a factor");
    const auto number = text.starts_with("x")
                            ? number_of<double>(text.substr(1))
                            : std::nullopt;
    if (!number || !(*number >= 1) || *number > 1e6)
      refuse(fmt::format("'{}' is no factor from x1 on, such as x1.5", text));
    return *number;
  }

  std::vector<std::string> words_;
  int blocks_;
  std::string written_;
  const Form* form_ = nullptr;
  std::size_t next_ = 0;
};

}  // namespace

std::vector<Injection> parse_injections(std::string_view text, int blocks) {
  std::vector<Injection> injections;
  for (const std::string& part : split(text, ';')) {
    std::vector<std::string> words = words_of(part);
    if (!words.empty())
      injections.push_back(Parser(std::move(words), blocks).parse());
  }
  return injections;
}

std::string to_text(const std::vector<Injection>& injections) {
  std::string text;
  for (const Injection& injection : injections)
    text += (text.empty() ? "" : "; ") + injection.text;
  return text;
}

std::string injections_manual() {
  std::string text =
      "sluice run CONFIG --inject \"FAULT; FAULT; ...\" makes faults happen, "
      "to test how a\nrun handles them (engine = \"processes\"; the keys "
      "on_failure and timeout decide).\nA run that reaches its end has the "
      "numbers of a run without faults.\n\n";
  for (const Form& form : kForms)
    text += fmt::format("  {:<24}{}\n", form.form, form.text);
  return text +
         "\nWHEN is a TURN; or `start`: when the block is made; or `evaluation "
         "N` or `checkpoint N`:\nwhen the block begins the first evaluation or "
         "checkpoint after N turns or more.\nTURN is `turn N`, or N alone: the "
         "first turn from N on. A fault with a WHEN or TURN\nhappens once, and "
         "not again after a restart.\n\n"
         "  --inject \"kill block 2 @ turn 50; stop block 1 @ checkpoint "
         "100\"\n"
         "  --inject \"delay 1->2 20ms; slow block 1 x1.5\"\n";
}

}  // namespace sluice
