#include "experiments/data/sets/sub_word_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <ostream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/files/sha256.h"
#include "experiments/data/files/token_file.h"
#include "experiments/data/sets/text_check.h"
#include "experiments/data/sets/tokens.h"
#include "experiments/data/sets/user_cache.h"
#include "experiments/data/sets/windows.h"
#include "lib/base/error.h"
#include "lib/base/files/file.h"
#include "lib/base/files/folder_lock.h"
#include "lib/base/files/temporary_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDefaultVocabulary = 1000;
constexpr std::uint64_t kMostModelBytes = std::uint64_t{256} << 20;
constexpr const char* kModelFile = "tokenizer.model";
constexpr std::array<const char*, 3> kPartFiles = {
    "train.bin", "validation.bin", "test.bin"};

/// Training, validation and test; the last may be empty.
using TextParts = std::array<std::string_view, 3>;

std::string cache_of_user() {
  std::string cache = user_cache();
  if (cache.empty())
    throw UserError(
        "data.cache: names no folder for tokens, and neither XDG_CACHE_HOME "
        "nor HOME is set");
  return cache;
}

std::string bytes_of_file(const std::string& path, std::uint64_t most) {
  const std::vector<std::uint8_t> bytes = read_data_file(path, most);
  return {bytes.begin(), bytes.end()};
}

/// The first place from `at` on where a line begins; in a text of one line,
/// where a character does.
std::size_t line_from(std::string_view text, std::size_t at) {
  if (at == 0 || at >= text.size()) return std::min(at, text.size());
  const std::size_t end = text.find('\n', at - 1);
  if (end != text.npos) return end + 1;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) >> 6) == 2)
    ++at;
  return at;
}

TextParts parts_of(std::string_view text, const TextCut& cut) {
  const auto place = [&](double share) {
    const double bytes = static_cast<double>(text.size()) * (1 - share);
    return line_from(
        text, static_cast<std::size_t>(std::floor(std::max(bytes, 0.0))));
  };
  const std::size_t train = place(cut.validation + cut.test);
  const std::size_t test = place(cut.test);
  return {text.substr(0, train), text.substr(train, test - train),
          text.substr(test)};
}

/// Name of a cache entry, made of all that the tokens follow from.
std::string key_of(std::string_view text, const TextCut& cut,
                   const SubWordOptions& options, const std::string& model) {
  const std::string tokenizer =
      model.empty() ? fmt::format("{} {}", options.training.kind,
                                  options.training.vocabulary)
                    : sha256_of(model);
  return sha256_of(fmt::format("sub-words 1: {} {} {} {}", sha256_of(text),
                               cut.validation, cut.test, tokenizer));
}

template <class Token>
void write_tokens(const std::vector<std::int64_t>& tokens,
                  const std::string& path) {
  const std::vector<Token> narrow(tokens.begin(), tokens.end());
  write_file_atomically(path, [&](std::ostream& file) {
    file.write(reinterpret_cast<const char*>(narrow.data()),
               static_cast<std::streamsize>(narrow.size() * sizeof(Token)));
  });
}

std::size_t token_bytes_of(const Tokenizer& tokenizer) {
  return tokenizer.vocabulary() <= (1 << 16) ? 2 : 4;
}

std::shared_ptr<const TokenShards> tokens_in(const std::string& path,
                                             const Tokenizer& tokenizer) {
  std::vector<std::unique_ptr<const TokenFile>> file;
  file.push_back(
      std::make_unique<const TokenFile>(path, token_bytes_of(tokenizer)));
  return std::make_shared<const TokenShards>(std::move(file));
}

/// Writes the tokenizer and the tokens of each part into an empty folder.
void fill(const fs::path& folder, const std::string& path,
          const TextParts& parts, const SubWordOptions& options,
          std::string model) {
  if (model.empty()) model = train_sub_words(parts[0], options.training, path);
  const SubWords words(model, path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::vector<std::int64_t> tokens = words.encode(parts.at(i));
    const std::string file = (folder / kPartFiles.at(i)).string();
    if (token_bytes_of(words) == 2)
      write_tokens<std::uint16_t>(tokens, file);
    else
      write_tokens<std::uint32_t>(tokens, file);
  }
  write_file_atomically((folder / kModelFile).string(),
                        [&](std::ostream& file) { file << words.model(); });
}

/// Removes folders that killed processes had begun: finished ones have no dot
/// in their names.
void remove_unfinished(const fs::path& in) {
  std::error_code ignored;
  for (fs::directory_iterator entry(in, ignored), end; entry != end;
       entry.increment(ignored))
    if (entry->path().has_extension() && is_left(entry->path().string()))
      fs::remove_all(entry->path(), ignored);
}

/// A folder that is there as a whole or not at all.
fs::path cached(const fs::path& folder,
                const std::function<void(const fs::path&)>& fill_folder) {
  remove_unfinished(folder.parent_path());
  if (fs::exists(folder / kModelFile)) return folder;
  const fs::path unfinished =
      fmt::format("{}.{}-{}", folder.string(), static_cast<int>(::getpid()),
                  std::hash<std::thread::id>()(std::this_thread::get_id()));
  std::error_code error;
  fs::remove_all(unfinished, error);
  fs::create_directories(unfinished, error);
  if (error)
    throw UserError(
        "{}: can't be made, for the tokens of the text: {}; give a folder with "
        "data.cache",
        unfinished.string(), error.message());
  try {
    const FolderLock lock(unfinished.string(), {.is_shared = false});
    fill_folder(unfinished);
  } catch (...) {
    fs::remove_all(unfinished, error);
    throw;
  }
  fs::rename(unfinished, folder, error);
  if (!error) return folder;
  std::error_code ignored;  // another process was faster
  fs::remove_all(unfinished, ignored);
  if (fs::exists(folder / kModelFile)) return folder;
  throw UserError(
      "{}: can't be made, for the tokens of the text: {}; remove what is "
      "there, "
      "or give another folder with data.cache",
      folder.string(), error.message());
}

void check_tokenizer_hash(const DataSet& data, const SubWordOptions& options,
                          const std::string& path) {
  if (options.sha256.empty() || options.sha256 == data.tokenizer_sha256) return;
  throw UserError(
      "{}: its tokenizer has the SHA-256 {:.12}..., and the run was made with "
      "{:.12}...: put that one back (a run keeps it as tokenizer.model, for "
      "data.tokenizer_model), or take the new one with "
      "data.tokenizer_sha256=\"\"",
      path, data.tokenizer_sha256, options.sha256);
}

/// The model file that is given, or "".
std::string given_model(const std::string& root,
                        const SubWordOptions& options) {
  if (options.model.empty()) return "";
  const std::string path = find_data_file(root, "", options.model);
  std::string model = bytes_of_file(path, kMostModelBytes);
  const SubWords words(model, path);
  if (options.training.vocabulary > 0 &&
      options.training.vocabulary != words.vocabulary())
    throw UserError(
        "data.vocabulary = {}: the tokenizer {} has {} pieces; leave the key "
        "out",
        options.training.vocabulary, path, words.vocabulary());
  return model;
}

}  // namespace

void SubWordOptions::describe(Fields& fields) {
  fields.key("tokenizer_model", model,
             {.text = "model file of sentencepiece: beside the config, below "
                      "data.root, or "
                      "absolute; \"\": one is trained from the training part "
                      "of the text"});
  fields.key("tokenizer_sha256", sha256,
             {.text = "hash of the tokenizer's model file, which the resolved "
                      "config has; \"\": any"});
  fields.key("tokenizer_kind", training.kind,
             {.text = "how one is trained: Kudo 2018 (arXiv:1804.10959), or "
                      "Sennrich et al. 2016 (arXiv:1508.07909)",
              .allowed = {"unigram", "bpe"}});
  fields.key("vocabulary", training.vocabulary,
             {.text = "sub-words of one that is trained, 256 bytes among them; "
                      "0: 1000, or those of the given file",
              .unit = "tokens",
              .min = 0,
              .max = 1'000'000});
  fields.key("cache", cache,
             {.text = "folder where tokenizers and the tokens of texts are "
                      "kept; \"\": sluice in $XDG_CACHE_HOME, or in ~/.cache"});
}

DataSet open_sub_words(const std::string& path, const std::string& root,
                       const TextCut& cut, const SubWordOptions& written) {
  const std::string model = given_model(root, written);
  SubWordOptions options = written;
  if (model.empty() && options.training.vocabulary == 0)
    options.training.vocabulary = kDefaultVocabulary;
  const std::string text =
      bytes_of_file(path, std::numeric_limits<std::uint64_t>::max());
  check_is_text(path, std::ssize(text),
                std::count(text.begin(), text.end(), '\0'));
  const TextParts parts = parts_of(text, cut);
  if (parts[0].empty()) throw UserError("{}: its training part is empty", path);
  const fs::path cache =
      fs::absolute(options.cache.empty() ? cache_of_user() : options.cache);
  const fs::path folder = cached(
      cache / "sub-words" / key_of(text, cut, options, model).substr(0, 32),
      [&](const fs::path& empty) { fill(empty, path, parts, options, model); });
  DataSet data = {.files = {path, (folder / kModelFile).string()},
                  .varies = true};
  data.tokenizer_file = data.files.back();
  data.tokenizer_sha256 = sha256_of_file(data.tokenizer_file);
  check_tokenizer_hash(data, options, path);
  data.tokenizer = std::make_shared<const SubWords>(
      bytes_of_file(data.tokenizer_file, kMostModelBytes), data.tokenizer_file);
  const std::int64_t vocabulary = data.tokenizer->vocabulary();
  data.sample = {
      .shape = {cut.context}, .classes = vocabulary, .is_text = true};
  std::vector<std::shared_ptr<const TokenShards>> files;
  for (const char* name : kPartFiles)
    files.push_back(tokens_in((folder / name).string(), *data.tokenizer));
  data.train = split_of_tokens(files[0], vocabulary,
                               training_windows(files[0]->size(), cut.context));
  const auto evaluated = [&](std::size_t part) {
    const auto& file = files.at(part);
    return split_of_tokens(file, vocabulary,
                           evaluation_windows(0, file->size(), cut.context));
  };
  const std::size_t last = cut.test > 0 ? 2 : 1;
  data.test = evaluated(last);
  if (last == 2) data.validation = evaluated(1);
  data.bytes_per_token = static_cast<double>(parts.at(last).size()) /
                         static_cast<double>(files.at(last)->size());
  return data;
}

}  // namespace sluice
