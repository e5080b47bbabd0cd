// Parts of one's own in a shared library: runs, sweeps, verify and list have
// them as they have what is built in.
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/data/files/sha256.h"
#include "tests/experiments/helpers/training.h"
#include "tests/plugins/plugin_program.h"

namespace sluice::plugins_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Plugins : public PluginProgram {};

TEST_F(Plugins, TrainTheSameBitsInOneProcessAndInSeveral) {
  const NamedTensors here = weights_on("virtual", config_);
  EXPECT_EQ(difference(weights_on("processes", config_), here), "");
  EXPECT_NE(
      difference(weights_on("virtual", config_ + " boundary.head.divisor=3"),
                 here),
      "");
}

TEST_F(Plugins, LearnWhatIsNotLinear) {
  const Outcome trained =
      run("long", "turns=800 evaluate_every=0 optimizer.momentum=0.9");
  ASSERT_EQ(trained.status, 0) << trained.text;
  const std::string before = ": accuracy ";
  const auto at = trained.text.rfind(before);
  ASSERT_NE(at, std::string::npos) << trained.text;
  // No line divides the classes: it would get 75 % at most.
  EXPECT_GT(std::stod(trained.text.substr(at + before.size())), 85);
}

TEST_F(Plugins, LeaveTheirPathAndHashInTheRunsFolder) {
  ASSERT_EQ(run("run").status, 0);
  const auto plugin = run_file("run").at("plugins").at(0);
  EXPECT_EQ(plugin.at("path").get<std::string>(), library_);
  EXPECT_EQ(plugin.at("sha256").get<std::string>(), sha256_of_file(library_));
  EXPECT_THAT(slurp(path("run/config.toml")),
              HasSubstr(sha256_of_file(library_)));
  const Outcome again = sluice(
      fmt::format("run {} --dir {}", path("run/config.toml"), path("again")));
  ASSERT_EQ(again.status, 0) << again.text;
  EXPECT_EQ(difference(weights_of("again"), weights_of("run")), "");
}

TEST_F(Plugins, MayBeNamedOnTheCommandLine) {
  const std::string bare =
      write("bare.toml", slurp(config_).substr(slurp(config_).find("blocks")));
  EXPECT_EQ(sluice(fmt::format("plan {}", bare)).status, 2);
  const Outcome plan =
      sluice(fmt::format("plan --plugin {} {}", library_, bare));
  EXPECT_EQ(plan.status, 0) << plan.text;
  const Outcome there = sluice("list heads --plugin " + library_);
  EXPECT_THAT(there.text, AllOf(HasSubstr("  linear "),
                                HasSubstr("  mine_head             a linear")));
  EXPECT_THAT(sluice("list datasets --plugin " + library_).text,
              HasSubstr("mine_data"));
  EXPECT_THAT(sluice("list heads").text, Not(HasSubstr("mine_head")));
  EXPECT_EQ(sluice("help config --plugin " + library_).status, 0);
}

TEST_F(Plugins, AreVerified) {
  const Outcome verified = sluice("verify --turns 4 " + config_);
  EXPECT_EQ(verified.status, 0) << verified.text;
  EXPECT_THAT(verified.text, HasSubstr("processes       2      4  same bits"));
  const Outcome other =
      sluice("verify --turns 4 --engines virtual,threads " + config_ +
             " --change threads:boundary.head.divisor=3");
  EXPECT_EQ(other.status, 1) << other.text;
}

TEST_F(Plugins, AreSweptAndReported) {
  const Outcome swept =
      sluice(fmt::format("sweep {} boundary.head.divisor=1,4 turns=2 --dir {}",
                         config_, path("sweep")));
  ASSERT_EQ(swept.status, 0) << swept.text;
  int runs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path("sweep")))
    if (entry.path().filename() == "run.json") {
      const auto run = nlohmann::json::parse(slurp(entry.path()));
      EXPECT_EQ(run.at("plugins").at(0).at("path").get<std::string>(),
                library_);
      ++runs;
    }
  EXPECT_EQ(runs, 2);
  const Outcome report = sluice("report " + path("sweep"));
  EXPECT_EQ(report.status, 0) << report.text;
}

TEST_F(Plugins, AreInCardsWhichRefuseRunsOfAnotherBuild) {
  const std::string card =
      write("card.toml",
            "card = {title = 'of a plug-in'}\n[[run]]\nname = 'mine'\n"
            "config = 'mine.toml'\npublished = 50\ntolerance = 50\n");
  const std::string doing = fmt::format("run {} --dir {}", card, path("card"));
  const Outcome done = sluice(doing);
  ASSERT_EQ(done.status, 0) << done.text;
  EXPECT_THAT(done.text, HasSubstr("Passed."));
  const std::string before = sha256_of_file(library_);
  EXPECT_EQ(hash_in(run_file("card/mine")), before);
  rebuild(library_);
  const Outcome again = sluice(doing);
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.text, HasSubstr("holds a run with another config"));
}

TEST_F(Plugins, GoOnWithTheSameBuildUnlessTheNewOneIsAskedFor) {
  ASSERT_EQ(run("run").status, 0);
  const std::string before = sha256_of_file(library_);
  const std::string resume =
      fmt::format("run --resume {} turns=14 ", path("run"));
  rebuild(library_);
  const Outcome refused = sluice(resume);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.text,
              AllOf(HasSubstr("the run was made with " + before.substr(0, 12)),
                    HasSubstr("--plugin " + library_)));
  const Outcome taken = sluice(resume + "--plugin " + library_);
  ASSERT_EQ(taken.status, 0) << taken.text;
  const auto file = run_file("run");
  EXPECT_EQ(hash_in(file), before);
  EXPECT_EQ(hash_in(file.at("continued").at(0)), sha256_of_file(library_));
}

TEST_F(Plugins, WithTheSameBytesAreOneWhereverTheyLie) {
  copy_of("mine", "copy/libmine.so");
  EXPECT_EQ(run("run", "--plugin " + path("copy/libmine.so")).status, 0);
}

}  // namespace sluice::plugins_test
