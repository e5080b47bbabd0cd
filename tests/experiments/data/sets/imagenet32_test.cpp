#include "experiments/data/sets/imagenet32.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/data/sets/npz.h"
#include "lib/base/config.h"
#include "tests/experiments/data/packed_test_files.h"

namespace sluice::imagenet32_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Labels = std::vector<std::int64_t>;

constexpr std::size_t kImage = 3072;

/// What numpy.savez() or, with `deflated`, savez_compressed() writes.
void write_npz(const std::string& path,
               const std::map<std::string, Bytes>& files, bool deflated) {
  const std::unique_ptr<archive, int (*)(archive*)> zip(archive_write_new(),
                                                        archive_write_free);
  archive_write_set_format_zip(zip.get());
  if (deflated)
    archive_write_zip_set_compression_deflate(zip.get());
  else
    archive_write_zip_set_compression_store(zip.get());
  ASSERT_EQ(archive_write_open_filename(zip.get(), path.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : files) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(
        archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), (name + ".npy").c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    ASSERT_EQ(archive_write_header(zip.get(), entry.get()), ARCHIVE_OK);
    archive_write_data(zip.get(), bytes.data(), bytes.size());
  }
  ASSERT_EQ(archive_write_close(zip.get()), ARCHIVE_OK);
}

class Imagenet32 : public DataFolder {
 protected:
  /// An image for each label, all of whose bytes are `first`, `first` + 1, ...
  void write_file(const std::string& name, const Labels& labels,
                  std::size_t first = 0, bool deflated = false) const {
    Bytes pixels;
    for (std::size_t i = 0; i < labels.size(); ++i)
      pixels.insert(pixels.end(), kImage, static_cast<std::uint8_t>(first + i));
    write_npz(path("imagenet32/" + name),
              {{"data", npy_of("|u1", fmt::format("({}, 3072)", labels.size()),
                               pixels)},
               {"labels", npy_of("<i8", fmt::format("({},)", labels.size()),
                                 bytes_of_numbers(labels))},
               {"mean", npy_of("<f8", "(3072,)", Bytes(8 * kImage))}},
              deflated);
  }
  void write_all() const {
    for (std::size_t i = 1; i <= 10; ++i)
      write_file(fmt::format("train_data_batch_{}.npz", i),
                 {static_cast<std::int64_t>(i), 1000}, 10 * i, i == 3);
    write_file("val_data.npz", {5});
  }
  DataSet open() const {
    Fields fields(nullptr, "data");
    return configure_imagenet32(fields)(root());
  }
};

TEST_F(Imagenet32, HasTheImagesOfAllTenFilesAndClassesFromZero) {
  write_all();
  const DataSet data = open();
  EXPECT_EQ(data.sample.shape, (SampleShape{3, 32, 32}));
  EXPECT_EQ(data.sample.classes, 1000);
  EXPECT_EQ(data.train.size(), 20);
  EXPECT_THAT(labels_of(data.train),
              ElementsAre(0, 999, 1, 999, 2, 999, 3, 999, 4, 999, 5, 999, 6,
                          999, 7, 999, 8, 999, 9, 999));
  EXPECT_THAT(labels_of(data.test), ElementsAre(4));
  // The second image of the third file, which is deflated: 31, normalised.
  const double red = all_of(data.train).inputs[5][0][7][9].item<double>();
  EXPECT_NEAR(red, (31.0 / 255 - 0.481) / 0.260, 1e-5);
}

TEST_F(Imagenet32, RefusesLabelsAndArraysOfAnotherForm) {
  write_all();
  write_file("val_data.npz", {0});
  EXPECT_THAT(error_of([&] { open().test.samples(); }),
              HasSubstr("val_data.npz: sample 0 has the label 0"));
  write_npz(path("imagenet32/val_data.npz"),
            {{"data", npy_of("|u1", "(1, 12)", Bytes(12))},
             {"labels", npy_of("<i8", "(1,)", Bytes(8))}},
            false);
  EXPECT_THAT(error_of([&] { open(); }),
              HasSubstr("'data' is not uint8 [N, 3072]"));
}

TEST_F(Imagenet32, RefusesAFileThatIsNoZipOrIsCutOffInOneLine) {
  write_all();
  write("imagenet32/val_data.npz", Bytes(200, 'x'));
  EXPECT_THAT(error_of([&] { open(); }),
              AllOf(HasSubstr("val_data.npz"), HasSubstr("damaged .npz"),
                    Not(HasSubstr("\n"))));
}

TEST(AnNpz, TellsOfAnArrayThatItHasNot) {
  const std::string path = testing::TempDir() + "sluice-empty.npz";
  write_npz(path, {{"a", npy_of("|u1", "(1,)", Bytes(1))}}, false);
  EXPECT_THAT(error_of([&] { read_npz(path, "b"); }),
              HasSubstr("has no array 'b.npy'"));
  EXPECT_THAT(read_npz(path, "a").bytes, ElementsAre(0));
  std::filesystem::remove(path);
}

}  // namespace sluice::imagenet32_test
