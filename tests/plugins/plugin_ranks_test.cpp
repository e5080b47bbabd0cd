// Ranks compare the plug-ins that they have loaded.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "experiments/data/files/sha256.h"
#include "tests/experiments/helpers/training.h"
#include "tests/plugins/plugin_program.h"

namespace sluice::plugin_ranks_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class PluginRanks : public PluginProgram {
 protected:
  /// Two ranks, of which the second has `more` on its command line; the exit
  /// status of both is 0 only if that of each is.
  Outcome start(const std::string& more) const {
    const std::string rank =
        fmt::format("{} run {} engine=processes --dir {}", SLUICE_PROGRAM,
                    config_, path("ranks"));
    return shell(fmt::format(
        "sh {}",
        write("ranks.sh",
              fmt::format("export WORLD_SIZE=2 MASTER_PORT={}\n"
                          "RANK=0 timeout 100 {} & first=$!\n"
                          "RANK=1 timeout 100 {} {} & second=$!\n"
                          "wait $first; one=$?\nwait $second; two=$?\n"
                          "[ $one -gt $two ] && exit $one\nexit $two\n",
                          20'000 + ::getpid() % 20'000, rank, rank, more))));
  }
};

TEST_F(PluginRanks, TrainWithOneBuildWhereverItLies) {
  const std::string copy = copy_of("mine", "copy/libmine.so");
  const Outcome ranks = start(fmt::format("'plugins=\"{}\"'", copy));
  ASSERT_EQ(ranks.status, 0) << ranks.text;
  ASSERT_EQ(run("whole", "engine=virtual").status, 0);
  EXPECT_EQ(difference(weights_of("ranks"), weights_of("whole")), "");
}

TEST_F(PluginRanks, RanksOfDifferentBuildsAreRefused) {
  const std::string other = copy_of("mine", "other/libmine.so");
  rebuild(other);
  const Outcome ranks = start(fmt::format("'plugins=\"{}\"'", other));
  EXPECT_EQ(ranks.status, 2) << ranks.text;
  EXPECT_THAT(
      ranks.text,
      AllOf(HasSubstr("plugins.libmine.so is \"" + sha256_of_file(other)),
            HasSubstr("but \"" + sha256_of_file(library_))));
  EXPECT_FALSE(fs::exists(path("ranks")));
}

TEST_F(PluginRanks, AllRanksEndAndSayWhyWhenOneBreaksBeforeTheyMeet) {
  copy_of("breaks", "libbreaks.so");
  constexpr int kCutOff = 124;  // of `timeout`
  for (const char* rank : {"0", "1"}) {
    config_ = write("breaks.toml",
                    fmt::format("plugins = ['libbreaks.so']\nblocks = 2\n"
                                "data = {{name = 'breaking_data', rank = "
                                "'{}'}}\nboundary = {{policy = 'backprop'}}\n",
                                rank));
    const Outcome ranks = start("");
    EXPECT_NE(ranks.status, 0);
    EXPECT_NE(ranks.status, kCutOff) << ranks.text;
    EXPECT_THAT(ranks.text,
                HasSubstr(fmt::format("rank {} has ended: it broke", rank)));
  }
}

TEST_F(PluginRanks, ThatMpirunStartsTrainTheSameBits) {
  if (shell("command -v mpirun").status != 0) GTEST_SKIP() << "no mpirun";
  const Outcome ranks = shell(
      fmt::format("mpirun --allow-run-as-root --oversubscribe -n 2 {} run {} "
                  "engine=processes --dir {}",
                  SLUICE_PROGRAM, config_, path("ranks")));
  ASSERT_EQ(ranks.status, 0) << ranks.text;
  ASSERT_EQ(run("whole", "engine=virtual").status, 0);
  EXPECT_EQ(difference(weights_of("ranks"), weights_of("whole")), "");
}

}  // namespace sluice::plugin_ranks_test
