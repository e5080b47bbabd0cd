#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/data/data_set.h"

namespace sluice {

/// An idx file of unsigned bytes, the format of MNIST
/// (http://yann.lecun.com/exdb/mnist): two zero bytes, the type 8, the number
/// of dimensions, each size as big-endian 32 bits, then the values.
struct IdxFile {
  std::vector<std::int64_t> sizes = {};
  std::vector<std::uint8_t> values = {};
};

/// Reads one with `dimensions` dimensions, gzipped or not. Throws UserError
/// that names the file, what was found and what was expected.
IdxFile read_idx(const std::string& path, std::size_t dimensions);

/// Its sizes alone: the values are not read, and of a gzipped file not counted.
std::vector<std::int64_t> read_idx_sizes(const std::string& path,
                                         std::size_t dimensions);

/// 28x28 grey images in 10 classes from root/mnist, root/fashion-mnist and
/// root/kmnist, in the files train- and t10k-{images-idx3,labels-idx1}-ubyte,
/// each as published or without .gz.
MakeDataSet configure_mnist(Fields& options);
MakeDataSet configure_fashion_mnist(Fields& options);
MakeDataSet configure_kmnist(Fields& options);

}  // namespace sluice
