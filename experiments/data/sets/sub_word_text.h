#pragma once

#include <cstdint>
#include <string>

#include "experiments/data/files/sub_words.h"
#include "experiments/data/samples/data_set.h"

namespace sluice {

/// Source of a text's tokenizer.
struct SubWordOptions {
  /// A model file of sentencepiece, below the root or absolute; empty: one is
  /// trained from the training part of the text.
  std::string model = {};
  std::string sha256 = {};  ///< that the model file must have; empty: any
  /// Of one that is trained. Vocabulary 0: 1000, or that of the given file.
  SubWordTraining training = {.vocabulary = 0};
  /// Folder for tokenizers and tokens; empty: `sluice` in the user's cache.
  std::string cache = {};

  void describe(Fields& fields);
};

/// How a text is cut into its parts and samples: TextOptions.
struct TextCut {
  std::int64_t context = 0;
  double validation = 0;
  double test = 0;
};

/// Opens the text `path` as sub-words. Its parts end at line ends. The
/// tokenizer and the tokens are made once and kept in the cache, under a hash
/// of all that they follow from; processes may do so at the same time. Inputs,
/// labels and windows are those of open_text(). Throws UserError, also for a
/// tokenizer that has another hash than the one asked for.
DataSet open_sub_words(const std::string& path, const std::string& root,
                       const TextCut& cut, const SubWordOptions& options);

}  // namespace sluice
