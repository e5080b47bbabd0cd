#include "experiments/data/files/sub_words.h"

#include <utility>

#include "lib/base/error.h"

#ifdef SLUICE_SENTENCEPIECE

#include <algorithm>
#include <cstddef>
#include <exception>
#include <unordered_map>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include "experiments/data/files/tokenizer_file.h"

namespace sluice {
namespace {

using sentencepiece::util::Status;

/// The library's error in one line, without the place in its code.
std::string reason_of(const Status& status) {
  std::string reason = status.message();
  const std::size_t place = reason.find(")] ");
  if (place != reason.npos) reason.erase(0, place + 3);
  while (!reason.empty() && (reason.back() == ' ' || reason.back() == '\n'))
    reason.pop_back();
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return reason.empty() ? "for no reason that it tells" : reason;
}

/// Takes the first line off, with the byte that ends it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line =
      text.substr(0, end == text.npos ? end : end + 1);
  text.remove_prefix(line.size());
  return line;
}

/// A text's lines without the bytes that end them, as the library takes them
/// from files: a line's end is a byte's piece, and begins no other.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::string_view text) : rest_(text) { Next(); }

  bool done() const override { return is_done_; }
  void Next() override {
    is_done_ = rest_.empty();
    line_ = std::string(take_line(rest_));
    if (line_.ends_with('\n')) line_.pop_back();
  }
  const std::string& value() const override { return line_; }
  Status status() const override { return {}; }

 private:
  std::string_view rest_;
  std::string line_;
  bool is_done_ = false;
};

/// The byte of "<0x0A>".
std::string byte_of(const std::string& piece) {
  constexpr std::size_t kDigits = 3;
  const auto digit = [&](std::size_t at) {
    const char each = at < piece.size() ? piece[at] : '0';
    return each <= '9' ? each - '0' : (each | 0x20) - 'a' + 10;
  };
  return {static_cast<char>(digit(kDigits) * 16 + digit(kDigits + 1))};
}

std::string with_spaces(std::string piece) {
  constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581
  for (std::size_t at = piece.find(kSpace); at != piece.npos;
       at = piece.find(kSpace, at + 1))
    piece.replace(at, kSpace.size(), " ");
  return piece;
}

}  // namespace

struct SubWords::Library {
  sentencepiece::SentencePieceProcessor pieces;
};

bool has_sentencepiece() {
  return true;
}

SubWords::SubWords(std::string model, const std::string& source)
    : model_(std::move(model)), library_(std::make_unique<Library>()) {
  check_tokenizer_file(model_, source);
  std::string reason;
  try {
    const Status status = library_->pieces.LoadFromSerializedProto(model_);
    if (status.ok() && library_->pieces.GetPieceSize() > 0) return;
    reason = status.ok() ? "it has no pieces" : reason_of(status);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  throw UserError("{}: is no tokenizer of sentencepiece, or a damaged one: {}",
                  source, reason);
}

SubWords::~SubWords() = default;

std::int64_t SubWords::vocabulary() const {
  return library_->pieces.GetPieceSize();
}

std::vector<std::int64_t> SubWords::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  std::vector<int> ids;
  while (!text.empty()) {
    const Status status = library_->pieces.Encode(take_line(text), &ids);
    if (!status.ok())
      throw UserError("the tokenizer can't encode a line of the text: {}",
                      reason_of(status));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  return tokens;
}

std::string SubWords::text_of(std::int64_t token) const {
  SLUICE_CHECK(token >= 0 && token < vocabulary(), "token {}", token);
  const int id = static_cast<int>(token);
  const auto& pieces = library_->pieces;
  if (pieces.IsControl(id)) return "";
  if (pieces.IsUnknown(id)) return "\xe2\x81\x87";  // U+2047, as the library
  if (pieces.IsByte(id)) return byte_of(pieces.IdToPiece(id));
  return with_spaces(pieces.IdToPiece(id));
}

std::string train_sub_words(std::string_view text,
                            const SubWordTraining& options,
                            const std::string& source) {
  const std::unordered_map<std::string, std::string> arguments = {
      {"vocab_size", std::to_string(options.vocabulary)},
      {"model_type", options.kind},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"add_dummy_prefix", "false"},
      {"byte_fallback", "true"},
      // No sentences, so none of the tokens that begin, end and fill them.
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      // No line is left out for its length: the most that it allows.
      {"max_sentence_length", "1073741824"},
      // Sums of several threads are of another order.
      {"num_threads", "1"},
      {"minloglevel", "2"}};
  Lines lines(text);
  std::string model;
  const Status status =
      sentencepiece::SentencePieceTrainer::Train(arguments, &lines, &model);
  if (!status.ok())
    throw UserError(
        "{}: no tokenizer of data.vocabulary = {} can be trained from it: {}",
        source, options.vocabulary, reason_of(status));
  return model;
}

}  // namespace sluice

#else

namespace sluice {
namespace {

[[noreturn]] void fail_without_library(const std::string& source) {
  throw UserError(
      "{}: this build has no sentencepiece, which a tokenizer wants: install "
      "libsentencepiece-dev, and build anew",
      source);
}

}  // namespace

struct SubWords::Library {};

bool has_sentencepiece() {
  return false;
}

SubWords::SubWords(std::string, const std::string& source) {
  fail_without_library(source);
}

SubWords::~SubWords() = default;

std::int64_t SubWords::vocabulary() const {
  return 0;
}

std::vector<std::int64_t> SubWords::encode(std::string_view) const {
  return {};
}

std::string SubWords::text_of(std::int64_t) const {
  return {};
}

std::string train_sub_words(std::string_view, const SubWordTraining&,
                            const std::string& source) {
  fail_without_library(source);
}

}  // namespace sluice

#endif
