#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "experiments/data/files/raw_file.h"

namespace sluice {

/// Place of a file in a zip.
struct ZippedFile {
  std::uint64_t begin = 0;     ///< of its bytes in the zip
  std::uint64_t packed = 0;    ///< bytes there
  std::uint64_t bytes = 0;     ///< once it is unpacked
  std::uint32_t checksum = 0;  ///< CRC-32 of these
  bool deflated = false;       ///< else stored as it is
};

/// The file `name` in a zip (PKWARE's APPNOTE 6.3.10, with its Zip64
/// extensions) of a few files, as a .npz is one. Believes nothing: throws
/// UserError in one line for what is no zip, damaged, encrypted, packed by
/// another method than deflate, or hasn't the file.
ZippedFile find_in_zip(const RawFile& zip, std::string_view name);

/// Unpacks a file of a zip from its beginning on. `zip` must outlive it. Used
/// by one thread.
class ZipReader {
 public:
  ZipReader(const RawFile& zip, const ZippedFile& file);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  /// The next bytes of the file, which must have as many. Compares the checksum
  /// with the last of them. Throws UserError for a file that is damaged.
  void read(std::span<std::uint8_t> bytes);

 private:
  struct Inflation;

  void inflate_into(std::span<std::uint8_t> bytes);

  const RawFile& zip_;
  const ZippedFile file_;
  std::uint64_t taken_ = 0;  // of the packed bytes
  std::uint64_t given_ = 0;  // of the others
  std::uint32_t checksum_ = 0;
  std::unique_ptr<Inflation> inflation_;
};

}  // namespace sluice
