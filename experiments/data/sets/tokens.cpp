#include "experiments/data/sets/tokens.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/files/shard_files.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// The largest vocabulary that a file may have of itself: twice that of any
/// published tokenizer.
constexpr std::int64_t kMostFound = 500'000;

Names<TokenType> token_types() {
  constexpr std::array kTypes = {TokenType{2, false}, TokenType{4, false},
                                 TokenType{1, false}, TokenType{4, true},
                                 TokenType{8, true}};
  Names<TokenType> names;
  for (const TokenType& type : kTypes) names.push_back({type.name(), type});
  return names;
}

struct TokensOptions {
  std::string folder = {};
  std::vector<std::string> train = {"train.bin"};
  std::vector<std::string> validation = {"val.bin"};
  std::vector<std::string> test = {};
  std::int64_t context = 128;
  std::int64_t vocabulary = 0;
  TokenType type = {};

  void describe(Fields& fields) {
    fields.key("folder", folder,
               {.text = "folder of the token files: beside the config, below "
                        "data.root, or "
                        "absolute"});
    fields.key("train", train,
               {.text = "token files in it for training: a name or a list, "
                        "where \"part_*.bin\" and \"part_{000..146}.bin\" are "
                        "several, one behind the other"});
    fields.key("validation", validation,
               {.text = "likewise for evaluations; with data.test they are "
                        "what early_stop and the like choose by"});
    fields.key("test", test,
               {.text = "likewise for the test alone; []: none, and the "
                        "validation files are the test split too"});
    fields.key("dtype", type, token_types(),
               {.text = "what a token is in the files, little-endian; a file "
                        "with a header (.npy, llm.c's) says so itself"});
    fields.key("context", context,
               {.text = "length of a sample",
                .unit = "tokens",
                .min = 1,
                .max = 1'000'000});
    fields.key("vocabulary", vocabulary,
               {.text = "tokens are below it; 0: the largest token of all "
                        "files and 1, for which they are read once, and "
                        "500,000 at most",
                .unit = "tokens",
                .min = 0,
                .max = std::numeric_limits<std::uint32_t>::max()});
    for (const auto& [name, files] :
         {std::pair{"train", &train}, std::pair{"validation", &validation}})
      if (names_none(*files)) fields.reject(name, "must name a token file");
    if (names_none(test)) test.clear();
  }

 private:
  /// A single "" is no file, as [] is.
  static bool names_none(const std::vector<std::string>& files) {
    return std::all_of(files.begin(), files.end(),
                       [](const std::string& name) { return name.empty(); });
  }
};

using SharedTokens = std::shared_ptr<const TokenShards>;

/// The vocabulary that a file has of itself. Throws UserError where it is so
/// large that it should be written.
std::int64_t checked_vocabulary(const TokenFile& file) {
  const std::int64_t vocabulary = file.largest() + 1;
  if (vocabulary > kMostFound)
    throw UserError(
        "{}: its largest token is {}, read as {}; if the vocabulary is as "
        "large, set data.vocabulary = {}, else correct data.dtype",
        file.path(), vocabulary - 1, file.form().type.name(), vocabulary);
  return vocabulary;
}

std::int64_t vocabulary_in(const std::vector<SharedTokens>& parts) {
  std::int64_t vocabulary = 0;
  for (const SharedTokens& part : parts)
    for (const auto& file : part->files())
      vocabulary = std::max(vocabulary, checked_vocabulary(*file));
  if (vocabulary == 1)
    throw UserError(
        "{}: all its tokens are 0, so there is nothing to be learned; see what "
        "wrote it",
        parts[0]->name());
  return vocabulary;
}

std::string form_text(const TokenForm& form) {
  return fmt::format("{}{}{}", form.type.name(),
                     form.header.empty() ? "" : " by ", form.header);
}

/// "train.bin: 103 tokens (uint16), 1.0 % of them 0"; of several files "a.bin
/// and 3 more files: ...".
std::string text_of(const TokenShards& shards, const TokenTally& seen) {
  const double zeros =
      100 * static_cast<double>(seen.zeros) /
      static_cast<double>(std::max<std::int64_t>(seen.tokens, 1));
  const std::string name = shards.name();
  return fmt::format("{}: {} tokens ({}), {}{:.1f} % of them 0",
                     name.substr(shards.files()[0]->path().rfind('/') + 1),
                     shards.size(), form_text(shards.files()[0]->form()),
                     seen.tokens < shards.size() ? "about " : "", zeros);
}

/// Looks at some tokens of each file. Throws UserError for one that is not
/// below `vocabulary`: a run would end when it came to it.
std::string look_at_tokens(const TokenShards& shards, std::int64_t vocabulary) {
  TokenTally all;
  for (const auto& file : shards.files()) {
    const TokenTally seen = file->look();
    if (seen.largest >= vocabulary)
      throw UserError(
          "{}: has the token {}, but data.vocabulary = {} ends before it; see "
          "data.dtype too",
          file->path(), seen.largest, vocabulary);
    all.tokens += seen.tokens;
    all.zeros += seen.zeros;
  }
  return text_of(shards, all);
}

SharedTokens open_shards(const std::string& folder,
                         const std::vector<std::string>& names,
                         TokenType type) {
  const std::vector<std::string> paths = find_shards(folder, names);
  for (const std::string& path : paths)
    if (path.ends_with(".gz"))
      throw UserError(
          "{}: is read in pieces, so it can't be gzipped; gunzip it", path);
  return std::make_shared<const TokenShards>(paths, type);
}

/// "a file more than once, in a list or in splits (val.bin)"; "": there is
/// none.
std::string repeated_in(std::vector<std::string> paths) {
  for (std::string& path : paths)
    path = std::filesystem::weakly_canonical(path).string();
  std::sort(paths.begin(), paths.end());
  const auto twice = std::adjacent_find(paths.begin(), paths.end());
  if (twice == paths.end()) return "";
  return fmt::format("a file more than once, in a list or in splits ({})",
                     std::filesystem::path(*twice).filename().string());
}

DataSet open_tokens(const std::string& folder, const TokensOptions& options) {
  DataSet data;
  data.varies = true;
  std::vector<SharedTokens> parts;
  for (const auto* names : {&options.train, &options.validation, &options.test})
    if (!names->empty())
      parts.push_back(open_shards(folder, *names, options.type));
  const std::int64_t vocabulary =
      options.vocabulary > 0 ? options.vocabulary : vocabulary_in(parts);
  std::vector<std::string> found;
  for (const SharedTokens& part : parts) {
    found.push_back(look_at_tokens(*part, vocabulary));
    for (const auto& file : part->files()) data.files.push_back(file->path());
  }
  if (const std::string repeated = repeated_in(data.files); !repeated.empty())
    found.push_back(repeated);
  data.found = [found] { return found; };
  data.sample = {
      .shape = {options.context}, .classes = vocabulary, .is_text = true};
  data.train =
      split_of_tokens(parts[0], vocabulary,
                      training_windows(parts[0]->size(), options.context));
  const auto evaluated = [&](const SharedTokens& part) {
    return split_of_tokens(
        part, vocabulary, evaluation_windows(0, part->size(), options.context));
  };
  data.test = evaluated(parts.back());
  if (!options.test.empty()) data.validation = evaluated(parts[1]);
  return data;
}

}  // namespace

MakeDataSet configure_tokens(Fields& fields) {
  TokensOptions options;
  options.describe(fields);
  if (options.folder.empty())
    fields.reject("folder",
                  "names no folder; give the one with train.bin and val.bin");
  return [options](const std::string& root) {
    return open_tokens(find_data_folder(root, options.folder), options);
  };
}

Split split_of_tokens(const std::shared_ptr<const TokenShards>& shards,
                      std::int64_t vocabulary, const Windows& windows) {
  if (windows.count < 1)
    throw UserError(
        "{}: has {} tokens, too few for windows of context = {}; give a "
        "smaller data.context",
        shards->name(), shards->size(), windows.context);
  return split_of_windows(windows, [shards, vocabulary]() -> ReadTokens {
    return [shards, vocabulary](std::int64_t begin,
                                std::span<std::int64_t> tokens) {
      shards->read(begin, vocabulary, tokens);
    };
  });
}

}  // namespace sluice
