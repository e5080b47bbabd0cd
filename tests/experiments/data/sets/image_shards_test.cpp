// Tar files that the program tar writes, in each of its formats.
#include "experiments/data/sets/image_shards.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/data/files/tar_file.h"
#include "experiments/data/order/sample_source.h"
#include "experiments/data/sets/image_folder.h"
#include "tests/experiments/data/image_test_files.h"

namespace sluice::image_shards_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class ImageShards : public DataFolder {
 protected:
  DataSet open(const std::string& options = "") const {
    return open_by(configure_image_shards,
                   "folder = \"tars\"\ntrain = \"train-*.tar\"\ntest = "
                   "\"test.tar\"\nsize = 4\n" +
                       options);
  }
  DataSet open_by(ConfigureDataSet configure, const std::string& text) const {
    const ConfigNode config = parse_toml(text, "test.toml");
    Fields fields(&config, "data");
    const MakeDataSet make = configure(fields);
    fields.finish();
    return make(root());
  }

  void write_text(const std::string& name, const std::string& text) const {
    write(name, Bytes(text.begin(), text.end()));
  }
  void write_sample(const std::string& key, const Bytes& png, int label) const {
    write("parts/" + key + ".png", png);
    write_text("parts/" + key + ".cls", fmt::format("{}\n", label));
  }

  /// Packs what lies below parts/`folder` into tars/`name`.
  void pack(const std::string& name, const std::string& folder,
            const std::string& format = "gnu") const {
    const std::string command =
        fmt::format("tar --sort=name --format={} -C {} -cf {} {}", format,
                    path("parts/."), path("tars/" + name), folder);
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  /// Three samples for training in two files, and one for the test.
  void write_all(const std::string& format = "gnu") const {
    write_sample("0/000", patterned_png(7, 10), 1);
    write_sample("0/001", flat_png(6, 6, {51, 102, 153}), 0);
    write_sample("1/002", flat_png(3, 9, {0, 255, 0}), 2);
    write_sample("2/003", flat_png(4, 4, {255, 0, 0}), 0);
    pack("train-0.tar", "0", format);
    pack("train-1.tar", "1", format);
    pack("test.tar", "2", format);
  }
};

TEST_F(ImageShards, HaveTheSamplesOfAFolderOfTheSameImages) {
  write_all();
  write("pictures/train/0/b.png", flat_png(6, 6, {51, 102, 153}));
  write("pictures/train/1/a.png", patterned_png(7, 10));
  write("pictures/train/2/c.png", flat_png(3, 9, {0, 255, 0}));
  write("pictures/test/0/d.png", flat_png(4, 4, {255, 0, 0}));
  const DataSet folder =
      open_by(configure_image_folder, "folder = \"pictures\"\nsize = 4\n");
  const DataSet shards = open();
  EXPECT_EQ(shards.sample.classes, 3);
  EXPECT_THAT(labels_of(shards.train), ElementsAre(1, 0, 2));
  const at::Tensor expected = all_of(folder.train).inputs;
  const at::Tensor inputs = all_of(shards.train).inputs;
  EXPECT_TRUE(at::equal(inputs[0], expected[1]));
  EXPECT_TRUE(at::equal(inputs[1], expected[0]));
  EXPECT_TRUE(at::equal(inputs[2], expected[2]));
  EXPECT_FALSE(at::equal(inputs[1], expected[1]));
  EXPECT_TRUE(
      at::equal(all_of(shards.test).inputs, all_of(folder.test).inputs));
}

TEST_F(ImageShards, AreReadInEachFormatOfTar) {
  for (const char* format : {"gnu", "oldgnu", "pax", "posix", "ustar", "v7"}) {
    write_all(format);
    EXPECT_THAT(labels_of(open().train), ElementsAre(1, 0, 2)) << format;
  }
}

TEST_F(ImageShards, MayHaveLongNames) {
  const std::string deep(90, 'd');
  write_all();
  write_sample("0/" + deep + "/" + deep, flat_png(4, 4, {9, 9, 9}), 1);
  for (const char* format : {"gnu", "pax", "ustar"}) {
    pack("train-0.tar", "0", format);
    EXPECT_THAT(labels_of(open().train), ElementsAre(1, 0, 1, 2)) << format;
  }
}

TEST_F(ImageShards, MayLieInAFolderThatLooksLikeAPattern) {
  write_all();
  std::filesystem::rename(path("tars"), path("t[1]"));
  write_all();
  std::filesystem::rename(path("tars"), path("t1"));
  std::filesystem::remove(path("t1/train-1.tar"));
  const DataSet data = open_by(
      configure_image_shards,
      "folder = \"t[1]\"\ntrain = \"train-*.tar\"\ntest = \"test.tar\"\n");
  EXPECT_EQ(data.train.size(), 3);
}

TEST_F(ImageShards, AreNamedByRangesAndListsToo) {
  write_all();
  const auto labels = [&](const std::string& train) {
    return labels_of(
        open_by(configure_image_shards,
                "folder = \"tars\"\nsize = 4\ntest = \"test.tar\"\ntrain = " +
                    train)
            .train);
  };
  EXPECT_THAT(labels("\"train-{0..1}.tar\""), ElementsAre(1, 0, 2));
  EXPECT_THAT(labels("[\"train-1.tar\", \"train-0.tar\"]"),
              ElementsAre(2, 1, 0));
  EXPECT_THAT(error_of([&] { labels("\"train-{0..2}.tar\""); }),
              AllOf(HasSubstr("train-2.tar"), Not(HasSubstr("\n"))));
  EXPECT_THAT(error_of([&] { labels("\"train-{2..1}.tar\""); }),
              HasSubstr("give the smaller number first"));
  EXPECT_THAT(error_of([&] { labels("\"other-*.tar\""); }),
              HasSubstr("no file matches"));
}

TEST_F(ImageShards, HaveAnOrderThatIsAPureFunctionOfTheSeedAndT) {
  for (int i = 0; i < 20; ++i)
    write_sample(fmt::format("0/{:03}", i),
                 flat_png(4, 4, {static_cast<std::uint8_t>(i), 0, 0}), i % 3);
  write_sample("2/003", flat_png(4, 4, {255, 0, 0}), 0);
  pack("train-0.tar", "0");
  pack("test.tar", "2");
  const OrderOptions order = {.batch_size = 4, .seed = 7};
  SampleSource forth(open().train.samples(), order);
  SampleSource back(open().train.samples(), order);
  const at::Tensor third = back.batch(3).inputs;
  forth.batch(0);
  EXPECT_TRUE(at::equal(forth.batch(3).inputs, third));
  EXPECT_FALSE(at::equal(forth.batch(2).inputs, third));
}

TEST_F(ImageShards, HaveTheSameBatchesForAnyNumberOfWorkers) {
  for (int i = 0; i < 20; ++i)
    write_sample(fmt::format("0/{:03}", i), patterned_png(7 + i % 3, 10 + i),
                 i % 3);
  write_sample("2/003", flat_png(4, 4, {255, 0, 0}), 0);
  pack("train-0.tar", "0");
  pack("test.tar", "2");
  const auto batch = [&](int workers, int seed) {
    const DataSet data = open(fmt::format(
        "workers = {}\naugment = {{resized_crop = 0.3, flip = true}}",
        workers));
    SampleSource source(
        data.train.samples(),
        {.batch_size = 16, .seed = static_cast<std::uint64_t>(seed)});
    return source.batch(1).inputs;
  };
  const at::Tensor alone = batch(1, 7);
  for (const int workers : {2, 5, 32})
    EXPECT_TRUE(at::equal(batch(workers, 7), alone)) << workers;
  EXPECT_FALSE(at::equal(batch(1, 8), alone));
}

TEST_F(ImageShards, NameTheFirstDamagedImageOfABatchForAnyNumberOfWorkers) {
  write_all();
  const DataSet data = open("workers = 3");
  const auto samples = data.train.samples();
  write("tars/train-0.tar", Bytes(10'240, 'x'));
  for (int again = 0; again < 10; ++again)
    EXPECT_THAT(error_of([&] {
                  samples->batch(std::vector<std::int64_t>{2, 1, 0}, {});
                }),
                HasSubstr("0/001.png"));
}

TEST_F(ImageShards, LeaveOtherPartsOutAndSayHowMany) {
  write_all();
  write_text("parts/0/000.json", "{}");
  write_text("parts/0/005.cls", "1");
  pack("train-0.tar", "0");
  EXPECT_THAT(open().found(),
              testing::Contains(AllOf(HasSubstr("1 .json"),
                                      HasSubstr("1 class without an image"))));
}

TEST_F(ImageShards, MayHaveTheirClassInAnotherPart) {
  write_all();
  for (const char* key : {"0/000", "0/001", "1/002", "2/003"})
    write_text(fmt::format("parts/{}.fine", key), "7");
  for (const auto& [file, folder] :
       {std::pair{"train-0.tar", "0"}, {"train-1.tar", "1"}, {"test.tar", "2"}})
    pack(file, folder);
  for (const char* label : {"fine", "FINE", ".fine"})
    EXPECT_THAT(labels_of(open(fmt::format("label = \"{}\"", label)).train),
                ElementsAre(7, 7, 7));
  EXPECT_THAT(error_of([&] { open("label = \"png\""); }),
              HasSubstr("must be the ending of the class"));
}

TEST_F(ImageShards, WithoutAClassAreRefused) {
  write_all();
  std::filesystem::remove(path("parts/0/001.cls"));
  pack("train-0.tar", "0");
  EXPECT_THAT(error_of([&] { open(); }),
              AllOf(HasSubstr("train-0.tar:0/001.png: has no 0/001.cls"),
                    HasSubstr("data.label"), Not(HasSubstr("\n"))));
  for (const char* label : {"-1", "cat", "", "1.5", "99999999999999999999"}) {
    write_text("parts/0/001.cls", label);
    pack("train-0.tar", "0");
    EXPECT_THAT(error_of([&] { open(); }), HasSubstr("expected the number"))
        << label;
  }
}

TEST_F(ImageShards, AboveTheClassesThatAreStatedAreRefused) {
  write_all();
  EXPECT_EQ(open("classes = 5").sample.classes, 5);
  EXPECT_THAT(error_of([&] { open("classes = 2"); }),
              AllOf(HasSubstr("train-1.tar:1/002.png"),
                    HasSubstr("the class 2, and data.classes = 2")));
}

TEST_F(ImageShards, ThatAreCutOffAreRefusedAndNamed) {
  write_all();
  // A folder's header, then a class's header and bytes, an image's header, and
  // its bytes.
  for (const auto& [size, says] :
       {std::pair{1600U, "no header, and no end of zeros, at byte 1536"},
        {1300U, "a file that goes on behind its end at byte 512"},
        {2060U, "a file that goes on behind its end at byte 1536"},
        {1536U, "no header, and no end of zeros, at byte 1536"}}) {
    pack("train-0.tar", "0");
    std::filesystem::resize_file(path("tars/train-0.tar"), size);
    EXPECT_THAT(error_of([&] { open(); }),
                AllOf(HasSubstr("train-0.tar: has "), HasSubstr(says),
                      Not(HasSubstr("\n"))));
  }
}

TEST_F(ImageShards, ThatAreOfAnotherKindAreRefused) {
  write_all();
  write("tars/train-0.tar", Bytes(2048, 'x'));
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("is no tar file"));
  write_gz("tars/train-0.tar", Bytes(2048, 'x'));
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("gunzip it"));
}

TEST_F(ImageShards, WithoutAnImageAreRefused) {
  write_all();
  write("tars/train-0.tar", Bytes(4096));
  EXPECT_THAT(error_of([&] { open(); }),
              HasSubstr("train-0.tar: has no image"));
  write("tars/train-0.tar", {});
  EXPECT_THAT(error_of([&] { open(); }),
              HasSubstr("train-0.tar: has no header, and no end"));
}

TEST_F(ImageShards, ThatAreSeveralInOneAreRefused) {
  write_all();
  const std::string joined =
      fmt::format("cat {0}/train-1.tar >>{0}/train-0.tar", path("tars/."));
  ASSERT_EQ(std::system(joined.c_str()), 0);
  EXPECT_THAT(error_of([&] { open(); }),
              HasSubstr("train-0.tar: goes on behind its end"));
}

TEST_F(ImageShards, WithLinksAreRefused) {
  write_all();
  std::filesystem::create_hard_link(path("parts/0/000.png"),
                                    path("parts/0/009.png"));
  write_text("parts/0/009.cls", "1");
  pack("train-0.tar", "0");
  EXPECT_THAT(error_of([&] { open(); }),
              AllOf(HasSubstr("train-0.tar:0/009.png"),
                    HasSubstr("--hard-dereference")));
}

TEST_F(ImageShards, WithTwoImagesOfOneKeyAreRefused) {
  write_all();
  write("parts/0/000.jpeg", patterned_png(7, 10));
  pack("train-0.tar", "0");
  EXPECT_THAT(error_of([&] { open(); }),
              AllOf(HasSubstr("train-0.tar:0/000.png"),
                    HasSubstr("sample 0/000 has such a part already")));
}

/// A header of a member with the right sum, and what follows it.
Bytes tar_of(const std::string& name, const std::string& size, char type,
             const std::string& bytes) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, size.size(), size);
  header[156] = type;
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char each : header) sum += static_cast<unsigned char>(each);
  header.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  std::string all = header + bytes;
  all.resize((all.size() + 511) / 512 * 512);
  return {all.begin(), all.end()};
}

TEST_F(ImageShards, WithDamagedHeadersAreRefused) {
  write_all();
  const std::string huge = "\x80" + std::string(11, '\xff');
  for (const auto& [says, bytes] :
       {std::pair{"a size that is no number", tar_of("a", huge, '0', "")},
        {"a size that is no number", tar_of("a", "12x", '0', "")},
        {"goes on behind its end", tar_of("a", "77777777777", '0', "")},
        {"a name that is too long", tar_of("a", "10000000", 'L', "name")},
        {"a damaged record", tar_of("a", "10", 'x', "0 path=b\n")},
        {"a damaged record", tar_of("a", "10", 'x', "99 path=b\n")},
        {"a damaged record", tar_of("a", "10", 'x', "10 path b\n")}}) {
    write("tars/train-0.tar", bytes);
    EXPECT_THAT(error_of([&] { open(); }),
                AllOf(HasSubstr("train-0.tar: has "), HasSubstr(says),
                      Not(HasSubstr("\n"))));
  }
}

TEST_F(ImageShards, WithADamagedImageAreRefusedOrLeaveItOut) {
  write_all();
  write("parts/0/001.png", Bytes(40, 'x'));
  pack("train-0.tar", "0");
  EXPECT_THAT(error_of([&] { open().train.samples(); }),
              HasSubstr("train-0.tar:0/001.png"));
  EXPECT_THAT(labels_of(open("on_bad = \"skip\"").train), ElementsAre(1, 2));
}

}  // namespace sluice::image_shards_test
