// What ranks compare when they meet: every key that makes the numbers, and none
// that doesn't.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/data/order/fingerprint.h"
#include "experiments/data/sets/idx.h"
#include "experiments/runs/processes/own_terms.h"
#include "experiments/runs/ranks/terms.h"
#include "lib/base/error.h"
#include "lib/base/files/temporary_folder.h"
#include "tests/experiments/data/data_test_files.h"
#include "tests/experiments/runs/ranks/rank_keys.h"

namespace sluice::rank_terms_test {

using testing::HasSubstr;

Terms terms_with(const std::vector<std::string>& overrides) {
  ConfigNode config = parse_toml(kRankConfig, "ranks.toml");
  for (const std::string& text : overrides) apply_override(config, text);
  return terms_of(read_experiment(config, ""), 0);
}

/// As rank 0 has them after they came over the wire.
Terms sent(const Terms& terms) {
  return terms_from(to_text(terms));
}

class RankKeys : public testing::TestWithParam<RankKey> {};

// Issue 18, item 1: a rank with another seed, rate or batch size trained on,
// and ended with exit status 0.
TEST_P(RankKeys, ThatMakeTheNumbersAreNamedWithBothValues) {
  const RankKey& key = GetParam();
  const Terms rank_0 = terms_with(key.both);
  std::vector<std::string> overrides = key.both;
  overrides.emplace_back(key.override_of_one);
  const Terms its = sent(terms_with(overrides));
  EXPECT_EQ(why_refused(rank_0, sent(rank_0), 1, false), "");
  const std::string reason = why_refused(rank_0, its, 1, false);
  EXPECT_THAT(reason, HasSubstr(key.told));
  EXPECT_THAT(reason, HasSubstr(" at rank 1, but "));
  EXPECT_THAT(reason, HasSubstr(" at rank 0"));
}

INSTANTIATE_TEST_SUITE_P(All, RankKeys, testing::ValuesIn(rank_keys()));

class FreeKeys : public testing::TestWithParam<const char*> {};

TEST_P(FreeKeys, MayDifferBetweenRanks) {
  const Terms its = sent(terms_with({GetParam()}));
  EXPECT_EQ(why_refused(terms_with({}), its, 1, true), "");
}

INSTANTIATE_TEST_SUITE_P(All, FreeKeys, testing::ValuesIn(free_rank_keys()));

TEST(RankTerms, NameTheBuildsThatDiffer) {
  const Terms rank_0 = terms_with({});
  Terms its = rank_0;
  its.commit = "0123456789ab";
  EXPECT_THAT(why_refused(rank_0, sent(its), 1, false),
              HasSubstr("commit 0123456789ab, but rank 0 from"));
}

TEST(RankTerms, RefuseAnotherLibTorchOnlyWhereEqualBuildsAreAskedFor) {
  const Terms rank_0 = terms_with({});
  Terms its = rank_0;
  its.build.set("libtorch", {.value = std::string("1.0")});
  EXPECT_EQ(why_refused(rank_0, sent(its), 1, false), "");
  EXPECT_THAT(other_build(rank_0, sent(its), 1),
              HasSubstr("libtorch is \"1.0\" at rank 1"));
  EXPECT_THAT(why_refused(rank_0, sent(its), 1, true),
              HasSubstr("equal_builds"));
}

TEST(RankTerms, RefuseARankThatContinuesAnotherCheckpoint) {
  const Terms rank_0 = terms_with({});
  Terms its = rank_0;
  its.first_turn = 8;
  EXPECT_THAT(why_refused(rank_0, sent(its), 1, false), HasSubstr("--resume"));
}

// Which GPU of its host it is.
TEST(RankTerms, LeaveTheNumberOfADeviceOut) {
  Terms rank_0 = terms_with({});
  const Terms its = rank_0;
  EXPECT_EQ(why_refused(rank_0, its, 1, false), "");
  rank_0.config.set("device", {.value = std::string("cuda")});
  EXPECT_THAT(why_refused(rank_0, its, 1, false), HasSubstr("device is"));
}

TEST(RankTerms, ThatAreNoneAreRefused) {
  const std::string good = to_text(terms_with({}));
  EXPECT_NO_THROW(terms_from(good));
  const std::vector<std::string> bad = {
      "",
      "{}",
      "[]",
      "nonsense",
      good.substr(0, good.size() / 2),
      R"({"commit":1,"config":{},"data":{},"first_turn":0,"build":{}})",
      R"({"commit":"a","config":null,"data":{},"first_turn":0,"build":{}})",
      std::string(100'000, '[')};
  for (const std::string& text : bad)
    EXPECT_THROW(terms_from(text), LinkError) << text.substr(0, 100);
}

// A file beside the config has another absolute path on each host.
TEST(RankTerms, CompareWhatIsInFilesWhereverTheyLie) {
  const TemporaryFolder folder;
  const auto terms_in =
      [&](const std::string& host, char letter) {
        std::filesystem::create_directories(folder.path() + "/" + host);
        std::ofstream(folder.path() + "/" + host + "/notes.txt")
            << std::string(400, 'a') << std::string(400, letter);
        const std::string config = folder.path() + "/" + host + "/c.toml";
        std::ofstream(config)
            << "batch_size = 2\nmodel = {name = 'gpt', width = 8, heads = 2, "
               "layers = 1}\nloss = {name = 'cross_entropy'}\n"
               "data = {name = 'text', context = 8, file = 'notes.txt'}\n";
        return terms_of(read_experiment(read_toml_file(config), ""), 0);
      };
  const Terms rank_0 = terms_in("one", 'b');
  EXPECT_EQ(why_refused(rank_0, sent(terms_in("two", 'b')), 1, false), "");
  EXPECT_THAT(why_refused(rank_0, sent(terms_in("three", 'c')), 1, false),
              HasSubstr("notes.txt"));
}

class Fingerprint : public DataFolder {
 protected:
  static Bytes images(std::uint8_t pixel) {
    Bytes bytes = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28};
    bytes.resize(16 + 784, pixel);
    return bytes;
  }
  static Bytes labels(std::uint8_t label) {
    return {0, 0, 8, 1, 0, 0, 0, 1, label};
  }
  ConfigNode of(std::uint8_t pixel, bool zipped) const {
    const std::string folder = "mnist/";
    const auto save = [&](const std::string& name, const Bytes& bytes) {
      if (zipped)
        write_gz(folder + name + ".gz", bytes);
      else
        write(folder + name, bytes);
    };
    std::filesystem::remove_all(path(folder));
    save("train-images-idx3-ubyte", images(pixel));
    save("train-labels-idx1-ubyte", labels(3));
    save("t10k-images-idx3-ubyte", images(7));
    save("t10k-labels-idx1-ubyte", labels(4));
    Fields fields(nullptr, "data");
    return fingerprint_of(configure_mnist(fields)(root()));
  }
};

TEST_F(Fingerprint, IsThatOfTheContents) {
  const ConfigNode plain = of(1, false);
  EXPECT_THAT(plain.literal(), HasSubstr("t10k-labels-idx1-ubyte"));
  EXPECT_EQ(of(1, true), plain) << "compressed";
  EXPECT_NE(of(2, false), plain) << "other pixels, of the same size";
}

}  // namespace sluice::rank_terms_test
