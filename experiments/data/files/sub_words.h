#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/data/files/tokenizer.h"

namespace sluice {

/// Whether this build has the library sentencepiece.
bool has_sentencepiece();

/// Sub-words of a tokenizer of sentencepiece (Kudo and Richardson 2018,
/// arXiv:1808.06226). A text is encoded line by line, each with the byte that
/// ends it.
class SubWords final : public Tokenizer {
 public:
  /// `model`: the bytes of a model file; `source` names it. Throws UserError,
  /// one line, for a damaged one, and in a build without the library.
  SubWords(std::string model, const std::string& source);
  ~SubWords() override;
  SubWords(const SubWords&) = delete;
  SubWords& operator=(const SubWords&) = delete;

  std::int64_t vocabulary() const override;
  std::vector<std::int64_t> encode(std::string_view text) const override;
  std::string text_of(std::int64_t token) const override;

  const std::string& model() const { return model_; }

 private:
  struct Library;

  std::string model_;
  std::unique_ptr<Library> library_;
};

/// Options of the training of a tokenizer.
struct SubWordTraining {
  std::int64_t vocabulary = 1000;  ///< pieces, the 256 bytes among them
  /// Sentencepiece's `model_type`: "unigram" (Kudo 2018, arXiv:1804.10959) or
  /// "bpe" (Sennrich et al. 2016, arXiv:1508.07909).
  std::string kind = "unigram";
};

/// Trains a tokenizer of which no byte is lost: texts in UTF-8 are taken as
/// they are, spaces and line ends included, and what has no piece becomes bytes
/// (only U+2581, which stands for a space there, comes back as a space). The
/// bytes of its model file, which are the same for the same text and version of
/// the library. `source` names the text. Throws UserError for a vocabulary that
/// is too large or small for it, and in a build without the library.
std::string train_sub_words(std::string_view text,
                            const SubWordTraining& options,
                            const std::string& source);

}  // namespace sluice
