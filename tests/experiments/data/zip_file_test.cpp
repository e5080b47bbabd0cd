// Zips as NumPy writes them, and damaged ones. tests/experiments/data/
// imagenet32_test.cpp reads those that libarchive writes.
#include "experiments/data/files/zip_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tests/experiments/data/data_test_files.h"

namespace sluice::zip_file_test {

using testing::HasSubstr;

enum class ZipMethod : std::uint8_t { stored, deflated };
enum class Sizes : std::uint8_t { plain, zip64 };

void append_number(Bytes& to, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}

Bytes deflated(const Bytes& content) {
  z_stream stream = {};
  EXPECT_EQ(
      deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY),
      Z_OK);
  Bytes packed(content.size() + 100);
  Bytes input = content;
  stream.next_in = input.data();
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

/// A zip of the file "a.npy", written by the format's description.
Bytes zip_of(const Bytes& content, ZipMethod packed, Sizes sizes) {
  const Bytes data =
      packed == ZipMethod::deflated ? deflated(content) : content;
  const std::string name = "a.npy";
  const bool is_64 = sizes == Sizes::zip64;
  const auto append_common = [&](Bytes& to) {
    append_number(to, 45, 2);                                     // version
    append_number(to, 0, 2);                                      // flags
    append_number(to, packed == ZipMethod::deflated ? 8 : 0, 2);  // method
    append_number(to, 0, 4);                                      // time, date
    append_number(
        to, crc32(0, content.data(), static_cast<uInt>(content.size())), 4);
    append_number(to, is_64 ? 0xffffffff : data.size(), 4);
    append_number(to, is_64 ? 0xffffffff : content.size(), 4);
    append_number(to, name.size(), 2);
    append_number(to, is_64 ? 20 : 0, 2);  // bytes of the field below
  };
  const auto append_field = [&](Bytes& to) {
    if (!is_64) return;
    append_number(to, 1, 2);
    append_number(to, 16, 2);
    append_number(to, content.size(), 8);
    append_number(to, data.size(), 8);
  };
  Bytes zip;
  append_number(zip, 0x04034b50, 4);
  append_common(zip);
  zip.insert(zip.end(), name.begin(), name.end());
  append_field(zip);
  zip.insert(zip.end(), data.begin(), data.end());
  const std::size_t directory = zip.size();
  append_number(zip, 0x02014b50, 4);
  append_number(zip, 45, 2);  // made by
  append_common(zip);
  zip.insert(zip.end(), 2 + 2 + 2 + 4, 0);  // comment, disk, attributes
  append_number(zip, 0, 4);                 // where its header is
  zip.insert(zip.end(), name.begin(), name.end());
  append_field(zip);
  const std::size_t end = zip.size();
  append_number(zip, 0x06054b50, 4);
  append_number(zip, 0, 4);  // disks
  append_number(zip, 1, 2);
  append_number(zip, 1, 2);
  append_number(zip, end - directory, 4);
  append_number(zip, directory, 4);
  append_number(zip, 2, 2);  // a comment
  zip.insert(zip.end(), {'h', 'i'});
  return zip;
}

class ZipFile : public DataFolder {
 protected:
  /// In two pieces, as a header and what follows it.
  Bytes read(const Bytes& zip_bytes) const {
    write("some.npz", zip_bytes);
    const RawFile zip(path("some.npz"));
    const ZippedFile file = find_in_zip(zip, "a.npy");
    ZipReader reader(zip, file);
    Bytes content(file.bytes);
    const std::span whole(content);
    const std::size_t half = content.size() / 2;
    reader.read(whole.first(half));
    reader.read(whole.subspan(half));
    return content;
  }
  std::string error_in(const Bytes& zip_bytes) const {
    return error_of([&] { read(zip_bytes); });
  }
};

Bytes some_content() {
  Bytes content;
  for (int i = 0; i < 300; ++i)
    content.push_back(static_cast<std::uint8_t>(i % 7 * 31));
  return content;
}

TEST_F(ZipFile, IsReadStoredAndDeflatedWithSizesInEitherPlace) {
  const Bytes content = some_content();
  EXPECT_LT(deflated(content).size(), content.size());
  for (const ZipMethod packed : {ZipMethod::stored, ZipMethod::deflated})
    for (const Sizes sizes : {Sizes::plain, Sizes::zip64})
      EXPECT_EQ(read(zip_of(content, packed, sizes)), content);
}

TEST_F(ZipFile, ThatIsCutOffIsRefused) {
  const Bytes zip = zip_of(some_content(), ZipMethod::stored, Sizes::plain);
  for (std::size_t size = 0; size < zip.size(); size += 3)
    EXPECT_THAT(
        error_in(Bytes(zip.begin(),
                       zip.begin() + static_cast<std::ptrdiff_t>(size))),
        HasSubstr("some.npz: is a damaged .npz file, or none: "));
}

TEST_F(ZipFile, WithAByteChangedIsRefusedOrHasItsContent) {
  const Bytes content = some_content();
  for (const ZipMethod packed : {ZipMethod::stored, ZipMethod::deflated})
    for (const Sizes sizes : {Sizes::plain, Sizes::zip64}) {
      const Bytes zip = zip_of(content, packed, sizes);
      int refused = 0;
      for (std::size_t i = 0; i < zip.size(); ++i) {
        Bytes changed = zip;
        changed[i] ^= 0x41;
        try {
          EXPECT_EQ(read(changed), content) << i;
        } catch (const UserError& error) {
          ++refused;
          EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
        }
      }
      EXPECT_GT(refused, static_cast<int>(zip.size()) / 4);
    }
}

TEST_F(ZipFile, ThatIsPackedAnotherWaySaysWhatToDo) {
  Bytes zip = zip_of(some_content(), ZipMethod::stored, Sizes::plain);
  const Bytes entry = {0x50, 0x4b, 0x01, 0x02};
  const auto at =
      std::search(zip.begin(), zip.end(), entry.begin(), entry.end());
  ASSERT_NE(at, zip.end());
  *(at + 10) = 93;  // zstd
  EXPECT_THAT(error_in(zip), HasSubstr("write it anew with numpy.savez"));
}

}  // namespace sluice::zip_file_test
