#include "experiments/data/sets/tokens.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/data/files/data_files.h"
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
  std::string train = "train.bin";
  std::string validation = "val.bin";
  std::string test = {};
  std::int64_t context = 128;
  std::int64_t vocabulary = 0;
  TokenType type = {};

  void describe(Fields& fields) {
    fields.key("folder", folder,
               {.text = "folder of the token files: beside the config, below "
                        "data.root, or "
                        "absolute"});
    fields.key("train", train, {.text = "token file in it for training"});
    fields.key("validation", validation,
               {.text = "token file in it for evaluations; with data.test it "
                        "is what early_stop and the like choose by"});
    fields.key("test", test,
               {.text = "token file in it for the test alone; \"\": none, and "
                        "the validation file is the test split too"});
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
    for (const auto& [name, file] :
         {std::pair{"train", &train}, std::pair{"validation", &validation}})
      if (file->empty()) fields.reject(name, "must name a token file");
  }
};

using SharedTokens = std::shared_ptr<const TokenFile>;

/// The vocabulary that the files have of themselves. Throws UserError where it
/// is so large that it should be written.
std::int64_t vocabulary_in(const std::vector<SharedTokens>& files) {
  std::int64_t vocabulary = 0;
  for (const SharedTokens& file : files) {
    vocabulary = std::max(vocabulary, file->largest() + 1);
    if (vocabulary > kMostFound)
      throw UserError(
          "{}: its largest token is {}, read as {}; if the vocabulary is as "
          "large, set data.vocabulary = {}, else correct data.dtype",
          file->path(), vocabulary - 1, file->form().type.name(), vocabulary);
  }
  if (vocabulary == 1)
    throw UserError(
        "{}: all its tokens are 0, so there is nothing to be learned; see what "
        "wrote it",
        files[0]->path());
  return vocabulary;
}

/// "train.bin: 103 tokens (uint16), 1.0 % of them 0"
std::string text_of(const TokenFile& file, const TokenTally& seen) {
  const TokenForm& form = file.form();
  const double zeros =
      100 * static_cast<double>(seen.zeros) /
      static_cast<double>(std::max<std::int64_t>(seen.tokens, 1));
  return fmt::format("{}: {} tokens ({}{}{}), {}{:.1f} % of them 0",
                     file.path().substr(file.path().rfind('/') + 1),
                     file.size(), form.type.name(),
                     form.header.empty() ? "" : " by ", form.header,
                     seen.tokens < file.size() ? "about " : "", zeros);
}

/// Looks at some tokens of each file. Throws UserError for one that is not
/// below `vocabulary`: a run would end when it came to it.
std::vector<std::string> look_at_tokens(const std::vector<SharedTokens>& files,
                                        std::int64_t vocabulary) {
  std::vector<std::string> found;
  for (const SharedTokens& file : files) {
    const TokenTally seen = file->look();
    if (seen.largest >= vocabulary)
      throw UserError(
          "{}: has the token {}, but data.vocabulary = {} ends before it; see "
          "data.dtype too",
          file->path(), seen.largest, vocabulary);
    found.push_back(text_of(*file, seen));
  }
  return found;
}

DataSet open_tokens(const std::string& folder, const TokensOptions& options) {
  DataSet data;
  data.varies = true;
  std::vector<SharedTokens> files;
  for (const std::string& name :
       {options.train, options.validation, options.test}) {
    if (name.empty()) continue;
    data.files.push_back(find_data_file(folder, "", name));
    if (data.files.back().ends_with(".gz"))
      throw UserError(
          "{}: is read in pieces, so it can't be gzipped; gunzip it",
          data.files.back());
    files.push_back(
        std::make_shared<const TokenFile>(data.files.back(), options.type));
  }
  const std::int64_t vocabulary =
      options.vocabulary > 0 ? options.vocabulary : vocabulary_in(files);
  data.found = [found = look_at_tokens(files, vocabulary)] { return found; };
  data.sample = {
      .shape = {options.context}, .classes = vocabulary, .is_text = true};
  data.train =
      split_of_tokens(files[0], vocabulary,
                      training_windows(files[0]->size(), options.context));
  const auto evaluated = [&](const SharedTokens& file) {
    return split_of_tokens(
        file, vocabulary, evaluation_windows(0, file->size(), options.context));
  };
  data.test = evaluated(files.back());
  if (!options.test.empty()) data.validation = evaluated(files[1]);
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

Split split_of_tokens(const std::shared_ptr<const TokenFile>& file,
                      std::int64_t vocabulary, const Windows& windows) {
  if (windows.count < 1)
    throw UserError(
        "{}: has {} tokens, too few for windows of context = {}; give a "
        "smaller data.context",
        file->path(), file->size(), windows.context);
  return split_of_windows(windows, [file, vocabulary]() -> ReadTokens {
    return
        [file, vocabulary](std::int64_t begin, std::span<std::int64_t> tokens) {
          file->read(begin, vocabulary, tokens);
        };
  });
}

}  // namespace sluice
