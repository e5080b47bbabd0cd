#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/data/files/image_bytes.h"

namespace sluice {

/// What differs between the sets in CIFAR's binary version
/// (https://www.cs.toronto.edu/~kriz/cifar.html): a record is some label bytes,
/// then 3072 of the image: red, green and blue, each 32 rows of 32.
struct CifarFormat {
  std::size_t label_bytes = 1;
  std::size_t label_at = 0;  ///< which of them is the class
  std::int64_t classes = 10;
};

/// The records of the files `paths`, in that order. Throws UserError that names
/// the file, what was found and what was expected.
Images read_cifar(const std::vector<std::string>& paths,
                  const CifarFormat& format);

/// Number of records in a file, by its length.
std::uint64_t cifar_records(const std::string& path, const CifarFormat& format);

}  // namespace sluice
