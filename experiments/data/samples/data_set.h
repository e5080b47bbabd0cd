#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/data/files/tokenizer.h"
#include "experiments/data/samples/split.h"
#include "lib/base/config.h"
#include "lib/base/table.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// One of many files of a data set, as it was found.
struct FoundFile {
  std::string split = {};  ///< "train", "test", "validation"
  std::string path = {};
  std::string what = {};    ///< "cat 640x480", for people
  std::string damage = {};  ///< why it can't be read; empty: it can
};

/// A data set, opened: its files are there, and their headers are right.
struct DataSet {
  SampleSpec sample = {};
  Split train = {};
  Split test = {};  ///< the split of which results are reported
  /// The split that decides when to stop, and which checkpoint or run is best.
  /// Size 0 where there is none: then the test split decides.
  Split validation = {};
  /// Some of the training samples, which evaluations see too. Size 0 where none
  /// are wanted.
  Split training_part = {};
  std::vector<std::string> files = {};  ///< paths of all that are read
  /// Of a text: what its tokens stand for. Nothing where that isn't known.
  std::shared_ptr<const Tokenizer> tokenizer = {};
  /// The file that the tokenizer is made from, and its SHA-256; empty: none.
  std::string tokenizer_file = {};
  std::string tokenizer_sha256 = {};
  /// Mean over the test split of a text whose tokenizer is known; else 0.
  double bytes_per_token = 0;
  /// Hash of the files' names and sizes, where they are too many to read them
  /// all at the start: by it the copies of several machines are compared.
  std::string listing = {};
  /// Whether a training sample is not the same in every epoch.
  bool varies = false;
  /// What the files turned out to hold, for people, a clause each: classes and
  /// their images, files that are left out, the share of zeros. Empty: nothing
  /// to say.
  std::function<std::vector<std::string>()> found = {};
  /// Reads each of many files to its end, those that are left out as damaged
  /// too. Empty: the set has few files, which its samples tell of.
  std::function<std::vector<FoundFile>()> walk = {};
  /// Whether damaged files are left out of the splits.
  bool leaves_out_damaged = false;

  bool has_validation() const { return validation.size() > 0; }
};

/// Opens the data set. `root` is the folder of data files ("" when none was
/// given: fine for sets that need no file). Throws UserError for a file that is
/// missing or of a wrong size; what it holds is checked when a split is read.
using MakeDataSet = std::function<DataSet(const std::string& root)>;
/// Reads the data set's options, eagerly, so that a typo fails at once.
using ConfigureDataSet = MakeDataSet (*)(Fields& options);
using DataSetRow = Row<ConfigureDataSet>;

}  // namespace sluice
