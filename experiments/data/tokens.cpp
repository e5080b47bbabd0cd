#include "experiments/data/tokens.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "experiments/data/files/data_files.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

struct TokensOptions {
  std::string folder = {};
  std::string train = "train.bin";
  std::string validation = "val.bin";
  std::string test = {};
  std::int64_t context = 128;
  std::int64_t vocabulary = 0;
  std::size_t token_bytes = 2;

  void describe(Fields& fields) {
    fields.key("folder", folder,
               {.text = "folder of the token files, below data.root or "
                        "absolute"});
    fields.key("train", train, {.text = "token file in it for training"});
    fields.key("validation", validation,
               {.text = "token file in it for evaluations; with data.test it "
                        "is what early_stop and the like choose by"});
    fields.key("test", test,
               {.text = "token file in it for the test alone; \"\": none, and "
                        "the validation file is the test split too"});
    fields.key("dtype", token_bytes,
               {{"uint16", std::size_t{2}}, {"uint32", std::size_t{4}}},
               {.text = "what a token is in the files, little-endian"});
    fields.key("context", context,
               {.text = "length of a sample",
                .unit = "tokens",
                .min = 1,
                .max = 1'000'000});
    fields.key("vocabulary", vocabulary,
               {.text = "tokens are below it; 0: the largest token of all "
                        "files and 1, for which they are read once",
                .unit = "tokens",
                .min = 0,
                .max = std::numeric_limits<std::uint32_t>::max()});
    for (const auto& [name, file] :
         {std::pair{"train", &train}, std::pair{"validation", &validation}})
      if (file->empty()) fields.reject(name, "must name a token file");
  }
};

using SharedTokens = std::shared_ptr<const TokenFile>;

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
    files.push_back(std::make_shared<const TokenFile>(data.files.back(),
                                                      options.token_bytes));
  }
  std::int64_t vocabulary = options.vocabulary;
  if (vocabulary == 0)
    for (const SharedTokens& file : files)
      vocabulary = std::max(vocabulary, file->largest() + 1);
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
