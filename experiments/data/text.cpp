#include "experiments/data/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/samples.h"
#include "experiments/data/windows.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// What one look at all bytes of a file tells.
struct Contents {
  std::int64_t bytes = 0;
  /// The token of each byte that occurs.
  std::array<std::int64_t, 256> tokens = {};
  std::int64_t vocabulary = 0;
};

Contents contents_of(const std::string& path) {
  Contents contents;
  std::array<bool, 256> occurs = {};
  scan_data_file(path, [&](std::span<const std::uint8_t> piece) {
    contents.bytes += static_cast<std::int64_t>(piece.size());
    for (const std::uint8_t byte : piece) occurs[byte] = true;
  });
  for (std::size_t byte = 0; byte < occurs.size(); ++byte)
    if (occurs[byte]) contents.tokens[byte] = contents.vocabulary++;
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

class TextSamples final : public Samples {
 public:
  TextSamples(std::shared_ptr<TextFile> file,
              const std::array<std::int64_t, 256>& tokens,
              const Windows& windows)
      : file_(std::move(file)),
        bytes_(file_->bytes()),
        tokens_(tokens),
        windows_(windows) {}

  std::int64_t size() const override { return windows_.count; }

  std::int64_t position(std::int64_t index, EpochKey key) const override {
    return windows_.position(index, key);
  }

  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch;
    batch.inputs = at::empty({count, windows_.context}, at::kLong);
    batch.labels = at::empty({count, windows_.context}, at::kLong);
    auto* input = batch.inputs.mutable_data_ptr<std::int64_t>();
    auto* label = batch.labels.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      const std::uint8_t* byte = bytes_.data() + position(index, key);
      for (std::int64_t i = 0; i < windows_.context; ++i, ++byte) {
        *input++ = tokens_[byte[0]];
        *label++ = tokens_[byte[1]];
      }
    }
    return batch;
  }

 private:
  std::shared_ptr<TextFile> file_;
  std::span<const std::uint8_t> bytes_;
  std::array<std::int64_t, 256> tokens_;
  Windows windows_;
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

/// For evaluations.
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
  return {windows.count, [file, tokens = contents.tokens, windows] {
            return std::make_shared<TextSamples>(file, tokens, windows);
          }};
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
}

DataSet open_text(const std::string& path, const TextOptions& options) {
  const Contents contents = contents_of(path);
  const auto bytes_without = [&](double share) {
    return static_cast<std::int64_t>(
        std::floor(static_cast<double>(contents.bytes) * (1 - share)));
  };
  const std::int64_t train = std::max<std::int64_t>(
      0, bytes_without(options.validation + options.test));
  const std::int64_t test = bytes_without(options.test);
  const Windows training = training_windows(train, options.context);
  if (training.count < 1)
    fail_too_short(path, "training", train, 2 * options.context, options);
  const Windows evaluation =
      windows_for(path, "validation", train, test - train, options);
  const auto file = std::make_shared<TextFile>(path, contents.bytes);
  DataSet data = {.sample = {.shape = {options.context},
                             .classes = contents.vocabulary,
                             .is_text = true},
                  .train = split_of(file, contents, training),
                  .test = split_of(file, contents, evaluation),
                  .files = {path}};
  if (options.test == 0) return data;
  const Windows last =
      windows_for(path, "test", test, contents.bytes - test, options);
  data.validation = std::exchange(data.test, split_of(file, contents, last));
  return data;
}

MakeDataSet configure_text(Fields& fields) {
  std::string file;
  TextOptions options;
  fields.key("file", file, {.text = "the text, below data.root or absolute"});
  options.describe(fields);
  if (file.empty()) fields.reject("file", "names no file; give a text file");
  return [file, options](const std::string& root) {
    return open_text(find_data_file(root, "", file), options);
  };
}

MakeDataSet configure_tiny_shakespeare(Fields& fields) {
  TextOptions options;
  options.describe(fields);
  return [options](const std::string& root) {
    return open_text(find_data_file(root, "tinyshakespeare", "input.txt"),
                     options);
  };
}

}  // namespace sluice
