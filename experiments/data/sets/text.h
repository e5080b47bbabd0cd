#pragma once

#include <cstdint>
#include <string>

#include "experiments/data/samples/data_set.h"
#include "experiments/data/sets/sub_word_text.h"

namespace sluice {

/// A text, whose tokens are bytes or sub-words.
struct TextOptions {
  /// T, the tokens of a sample; at least 1.
  std::int64_t context = 128;
  /// The share of the file that is kept for evaluations, in (0, 1): its end,
  /// or what lies before the test part.
  double validation = 0.1;
  /// The share of the file's end that is kept for the test, and chooses
  /// nothing, in [0, 1); 0: the validation part is the test split too.
  double test = 0;
  /// Whether windows are the same in every epoch of training.
  bool are_fixed = false;
  bool has_sub_words = false;  ///< else bytes
  SubWordOptions sub_words = {};

  void describe(Fields& fields);
};

/// A text by bytes: a token is the place of a byte among the distinct bytes of
/// the whole file, sorted. UTF-8 is read byte by byte.
///
/// Inputs are int64 [N, T]; labels, int64 [N, T], are the tokens that follow
/// each. Evaluations see windows of T tokens, one after the other. So does an
/// epoch of training, but unless they are fixed its first window starts at an
/// offset below T that is keyed by (seed, epoch); then they are shuffled. The
/// file is gone through once at the start, for its size and vocabulary. Throws
/// UserError when it can't be read, or is too short for a window.
DataSet open_text(const std::string& path, const TextOptions& options);

/// The option `file`, below the root or absolute; as bytes or, with
/// `tokenizer`, as sub-words (open_sub_words()).
MakeDataSet configure_text(Fields& options);
/// Tiny Shakespeare from root/tinyshakespeare/input.txt.
MakeDataSet configure_tiny_shakespeare(Fields& options);

}  // namespace sluice
