#include "experiments/data/sets/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/data/files/data_files.h"
#include "experiments/data/sets/text_check.h"
#include "experiments/data/sets/windows.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// What one look at all bytes of a file tells.
struct Contents {
  std::int64_t bytes = 0;
  std::int64_t zeros = 0;  ///< bytes that are 0
  /// The token of each byte that occurs.
  std::array<std::int64_t, 256> tokens = {};
  std::int64_t vocabulary = 0;
  std::string alphabet = {};  ///< the byte of each token
};

Contents contents_of(const std::string& path) {
  Contents contents;
  std::array<bool, 256> occurs = {};
  scan_data_file(path, [&](std::span<const std::uint8_t> piece) {
    contents.bytes += static_cast<std::int64_t>(piece.size());
    for (const std::uint8_t byte : piece) occurs[byte] = true;
    contents.zeros += std::count(piece.begin(), piece.end(), 0);
  });
  for (std::size_t byte = 0; byte < occurs.size(); ++byte)
    if (occurs[byte]) {
      contents.tokens[byte] = contents.vocabulary++;
      contents.alphabet.push_back(static_cast<char>(byte));
    }
  return contents;
}

/// A file that both splits share, read when the first of them is.
class TextFile {
 public:
  TextFile(std::string path, std::int64_t size)
      : path_(std::move(path)), size_(size) {}

  std::span<const std::uint8_t> bytes() {
    const std::lock_guard lock(mutex_);
    if (bytes_.empty()) {
      bytes_ = read_data_file(path_);
      if (std::ssize(bytes_) != size_) {
        throw UserError("{}: has {} bytes, and had {} a moment ago", path_,
                        bytes_.size(), size_);
      }
    }
    return bytes_;
  }

 private:
  std::mutex mutex_;
  std::string path_;
  std::int64_t size_;
  std::vector<std::uint8_t> bytes_;  // guarded by mutex_
};

/// Bytes are tokens.
class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(std::string alphabet)
      : alphabet_(std::move(alphabet)) {}

  std::int64_t vocabulary() const override { return std::ssize(alphabet_); }

  std::vector<std::int64_t> encode(std::string_view text) const override {
    std::vector<std::int64_t> tokens;
    for (const char byte : text) {
      const auto token = alphabet_.find(byte);
      if (token == alphabet_.npos)
        throw UserError(
            "the text that the model has learned has no byte {:#04x} ('{}'); "
            "leave it out",
            static_cast<unsigned char>(byte),
            static_cast<unsigned char>(byte) < 0x80 ? std::string(1, byte)
                                                    : "?");
      tokens.push_back(static_cast<std::int64_t>(token));
    }
    return tokens;
  }

  std::string text_of(std::int64_t token) const override {
    return {alphabet_.at(static_cast<std::size_t>(token))};
  }

 private:
  std::string alphabet_;
};

[[noreturn]] void fail_too_short(const std::string& path, const char* part,
                                 std::int64_t has, std::int64_t needs,
                                 const TextOptions& options) {
  throw UserError(
      "{}: its {} part has {} bytes, but windows of context = {} need {}; give "
      "a smaller data.context, a longer file, or another data.validation (now "
      "{}) or data.test (now {})",
      path, part, has, options.context, needs, options.validation,
      options.test);
}

/// Windows of a text for evaluations.
Windows windows_for(const std::string& path, const char* part,
                    std::int64_t begin, std::int64_t bytes,
                    const TextOptions& options) {
  const Windows windows = evaluation_windows(begin, bytes, options.context);
  if (windows.count < 1)
    fail_too_short(path, part, bytes, options.context + 1, options);
  return windows;
}

Split split_of(const std::shared_ptr<TextFile>& file, const Contents& contents,
               const Windows& windows) {
  return split_of_windows(windows, [file, table = contents.tokens] {
    return ReadTokens([file, table, bytes = file->bytes()](
                          std::int64_t begin, std::span<std::int64_t> tokens) {
      const std::uint8_t* byte = bytes.data() + begin;
      for (std::int64_t& token : tokens) token = table[*byte++];
    });
  });
}

DataSet open_as_configured(const std::string& path, const std::string& root,
                           const TextOptions& options) {
  if (!options.has_sub_words) return open_text(path, options);
  return open_sub_words(path, root,
                        {.context = options.context,
                         .validation = options.validation,
                         .test = options.test},
                        options.sub_words);
}

/// Throws UserError for sub-words where the build has no sentencepiece.
void check_tokenizer(const Fields& fields, const TextOptions& options) {
  if (options.has_sub_words && !has_sentencepiece())
    fields.reject("tokenizer",
                  "'sentencepiece' is not in this build: install "
                  "libsentencepiece-dev, and build anew");
}

}  // namespace

void TextOptions::describe(Fields& fields) {
  fields.key("context", context,
             {.text = "length of a sample",
              .unit = "tokens",
              .min = 1,
              .max = 1'000'000});
  fields.key("validation", validation,
             {.text = "share of the file that is kept for evaluations: its "
                      "end, or what lies before the test part",
              .min = 0,
              .max = 1});
  fields.key(
      "test", test,
      {.text = "share of the file's end that is kept for the test alone; "
               "0: the validation part is the test split too, and "
               "early_stop, checkpoint.best, halving and drivers choose "
               "by what is reported",
       .min = 0,
       .max = 1});
  std::optional<bool> fixed;
  fields.optional(
      "windows", fixed, {{"moving", false}, {"fixed", true}},
      {.text = "where samples begin: in each epoch of training at an offset of "
               "its own, or at the same places, for what keeps something of "
               "every sample; default: moving"});
  are_fixed = fixed.value_or(false);
  fields.key("tokenizer", has_sub_words,
             {{"bytes", false}, {"sentencepiece", true}},
             {.text = "what a token is: a byte of the file, or a sub-word "
                      "(Kudo and Richardson 2018, arXiv:1808.06226)"});
  sub_words.describe(fields);
}

DataSet open_text(const std::string& path, const TextOptions& options) {
  const Contents contents = contents_of(path);
  check_is_text(path, contents.bytes, contents.zeros);
  const auto bytes_without = [&](double share) {
    return static_cast<std::int64_t>(
        std::floor(static_cast<double>(contents.bytes) * (1 - share)));
  };
  const std::int64_t train = std::max<std::int64_t>(
      0, bytes_without(options.validation + options.test));
  const std::int64_t test = bytes_without(options.test);
  Windows training = training_windows(train, options.context);
  training.move = training.move && !options.are_fixed;
  if (training.count < 1)
    fail_too_short(path, "training", train, 2 * options.context, options);
  const Windows evaluation =
      windows_for(path, "validation", train, test - train, options);
  const auto file = std::make_shared<TextFile>(path, contents.bytes);
  DataSet data = {
      .sample = {.shape = {options.context},
                 .classes = contents.vocabulary,
                 .is_text = true},
      .train = split_of(file, contents, training),
      .test = split_of(file, contents, evaluation),
      .files = {path},
      .tokenizer = std::make_shared<const ByteTokenizer>(contents.alphabet),
      .bytes_per_token = 1,
      .varies = !options.are_fixed};
  if (options.test == 0) return data;
  const Windows last =
      windows_for(path, "test", test, contents.bytes - test, options);
  data.validation = std::exchange(data.test, split_of(file, contents, last));
  return data;
}

MakeDataSet configure_text(Fields& fields) {
  std::string file;
  TextOptions options;
  fields.key(
      "file", file,
      {.text = "the text: beside the config, below data.root, or absolute"});
  options.describe(fields);
  if (file.empty()) fields.reject("file", "names no file; give a text file");
  check_tokenizer(fields, options);
  return [file, options](const std::string& root) {
    return open_as_configured(find_data_file(root, "", file), root, options);
  };
}

MakeDataSet configure_tiny_shakespeare(Fields& fields) {
  TextOptions options;
  options.describe(fields);
  check_tokenizer(fields, options);
  return [options](const std::string& root) {
    return open_as_configured(
        find_data_file(root, "tinyshakespeare", "input.txt"), root, options);
  };
}

}  // namespace sluice
