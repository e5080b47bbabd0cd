#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/config.h"
#include "lib/base/table.h"

namespace sluice {

/// The labelled images of one split, as bytes. All functions may be called
/// from several threads at once. An index is in [0, size()).
class Samples {
 public:
  virtual ~Samples() = default;
  virtual std::int64_t size() const = 0;
  /// Writes sample `index`: one byte for each element of DataSet::shape, whose
  /// size `pixels` must have, channel by channel and row by row.
  virtual void read(std::int64_t index,
                    std::span<std::uint8_t> pixels) const = 0;
  /// In [0, DataSet::classes).
  virtual std::int64_t label(std::int64_t index) const = 0;
};

/// A data set, opened.
struct DataSet {
  std::vector<std::int64_t> shape = {};  ///< [C, H, W]
  std::int64_t classes = 0;
  /// Per channel, of pixels scaled to 0..1; what inputs are normalised with.
  std::vector<double> mean = {};
  std::vector<double> std = {};
  std::unique_ptr<const Samples> train = nullptr;
  std::unique_ptr<const Samples> test = nullptr;
};

/// Opens the data set. `root` is the folder of data files ("" when none was
/// given: fine for sets that need no file). Throws UserError for a file that is
/// missing or wrong.
using MakeDataSet = std::function<DataSet(const std::string& root)>;
/// Reads the data set's options, eagerly, so that a typo fails at once.
using ConfigureDataSet = MakeDataSet (*)(Fields& options);
using DataSetRow = Row<ConfigureDataSet>;

}  // namespace sluice
