#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "experiments/data/samples/data_set.h"
#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"

namespace sluice {

using Bytes = std::vector<std::uint8_t>;

/// A folder of data files, removed at the end of the test.
class DataFolder : public testing::Test {
 protected:
  DataFolder() {
    std::string pattern = testing::TempDir() + "sluice-data-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      throw UserError("no temporary folder {}", pattern);
    }
    root_ = pattern;
  }
  ~DataFolder() override { std::filesystem::remove_all(root_); }

  std::string path(const std::string& name) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    return path.string();
  }

  std::string write(const std::string& name, const Bytes& bytes) const {
    std::ofstream file(path(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path(name);
  }

  std::string write_gz(const std::string& name, const Bytes& bytes) const {
    const gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return path(name);
  }

  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

/// All samples of a split, in the order of their indices, as in epoch 0.
inline Batch all_of(const Split& split) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(split.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return split.samples()->batch(indices, {});
}

inline std::vector<std::int64_t> labels_of(const Split& split) {
  const at::Tensor labels = all_of(split).labels;
  const auto* first = labels.const_data_ptr<std::int64_t>();
  return {first, first + labels.numel()};
}

/// Reads both splits.
inline void read_all(const DataSet& data_set) {
  data_set.train.samples();
  data_set.test.samples();
}

/// The text of the UserError that `action` throws; empty when it doesn't.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace sluice
