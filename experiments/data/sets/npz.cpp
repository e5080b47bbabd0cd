#include "experiments/data/sets/npz.h"

#include <algorithm>
#include <span>

#include "experiments/data/files/raw_file.h"
#include "experiments/data/files/zip_file.h"

namespace sluice {
namespace {

NpzArray read_array(const std::string& path, std::string_view name,
                    bool with_numbers) {
  const RawFile zip(path);
  const std::string wanted = std::string(name) + ".npy";
  const ZippedFile file = find_in_zip(zip, wanted);
  ZipReader reader(zip, file);
  std::vector<std::uint8_t> head(static_cast<std::size_t>(
      std::min<std::uint64_t>(file.bytes, kMostNpyHead)));
  reader.read(head);
  NpzArray read = {.array =
                       read_npy_header(head, path + ":" + wanted, file.bytes)};
  if (!with_numbers) return read;
  read.bytes.assign(
      head.begin() + static_cast<std::ptrdiff_t>(read.array.begin), head.end());
  const std::size_t had = read.bytes.size();
  read.bytes.resize(static_cast<std::size_t>(file.bytes - read.array.begin));
  reader.read(std::span(read.bytes).subspan(had));
  return read;
}

}  // namespace

NpzArray read_npz(const std::string& path, std::string_view name) {
  return read_array(path, name, /*with_numbers=*/true);
}

NpzArray read_npz_header(const std::string& path, std::string_view name) {
  return read_array(path, name, /*with_numbers=*/false);
}

}  // namespace sluice
