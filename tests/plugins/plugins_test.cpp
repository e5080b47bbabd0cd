// Parts of one's own in a shared library: runs, sweeps, verify, list and ranks
// have them as they have what is built in.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "experiments/data/sha256.h"
#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::plugins_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Plugins : public Program {
 protected:
  Plugins() {
    library_ = copy_of("mine", "libmine.so");
    config_ = write("mine.toml",
                    "plugins = ['libmine.so']\n"
                    "blocks = 2\nturns = 12\nbatch_size = 32\nthreads = 1\n"
                    "data = {name = 'mine_data'}\n"
                    "model = {hidden = [16, 16]}\n"
                    "boundary = {policy = 'local_loss', head = {name = "
                    "'mine_head'}}\n"
                    "optimizer = {lr = 0.1}\n");
  }

  std::string copy_of(const std::string& plugin, const std::string& to) const {
    fs::create_directories(fs::path(path(to)).parent_path());
    fs::copy_file(fmt::format("{}/lib{}.so", SLUICE_TEST_PLUGINS, plugin),
                  path(to));
    return path(to);
  }
  /// Other bytes; it loads and does the same.
  static void rebuild(const std::string& library) {
    std::ofstream(library, std::ios::app) << "another build";
  }

  Outcome run(const std::string& dir, const std::string& more = "") const {
    return sluice(fmt::format("run {} --dir {} {}", config_, path(dir), more));
  }
  NamedTensors weights_of(const std::string& dir) const {
    return load_weights(checkpoint_folder(path(dir + "/checkpoints"), 12));
  }
  nlohmann::json run_file(const std::string& dir) const {
    return nlohmann::json::parse(slurp(path(dir + "/run.json")));
  }

  std::string library_;
  std::string config_;
};

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
  EXPECT_EQ(plugin.at("path"), library_);
  EXPECT_EQ(plugin.at("sha256"), sha256_of_file(library_));
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
      sluice(fmt::format("plan {} --plugin {}", bare, library_));
  EXPECT_EQ(plan.status, 0) << plan.text;
  const Outcome there = sluice("list heads --plugin " + library_);
  EXPECT_THAT(there.text, AllOf(HasSubstr("  linear "),
                                HasSubstr("  mine_head           a linear")));
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
      EXPECT_EQ(run.at("plugins").at(0).at("path"), library_);
      ++runs;
    }
  EXPECT_EQ(runs, 2);
  const Outcome report = sluice("report " + path("sweep"));
  EXPECT_EQ(report.status, 0) << report.text;
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
  EXPECT_EQ(file.at("plugins").at(0).at("sha256"), before);
  EXPECT_EQ(file.at("continued").at(0).at("plugins").at(0).at("sha256"),
            sha256_of_file(library_));
}

TEST_F(Plugins, WithTheSameBytesAreOneWhereverTheyLie) {
  copy_of("mine", "copy/libmine.so");
  EXPECT_EQ(run("run", "--plugin " + path("copy/libmine.so")).status, 0);
}

/// A plug-in with built-in rows once more, under names that begin with parts_.
class PluginParts : public Plugins {
 protected:
  PluginParts() { parts_ = copy_of("parts", "libparts.so"); }

  /// Of a run with these lines, in which `prefix` takes the place of each @.
  NamedTensors weights(std::string lines, const std::string& prefix) {
    for (std::size_t at = lines.find('@'); at != std::string::npos;
         at = lines.find('@'))
      lines.replace(at, 1, prefix);
    const std::string dir = fmt::format("run-{}", ++runs_);
    const std::string config = write(
        dir + ".toml",
        fmt::format("plugins = ['{}']\nturns = 12\nbatch_size = 24\nthreads = "
                    "1\ndata = {{name = '{}drawn_digits', train = 240, test = "
                    "40}}\n{}",
                    parts_, prefix, lines));
    const Outcome run =
        sluice(fmt::format("run {} --dir {}", config, path(dir)));
    EXPECT_EQ(run.status, 0) << run.text;
    return weights_of(dir);
  }
  void expect_same_with_parts(const std::string& lines) {
    const NamedTensors built_in = weights(lines, "");
    ASSERT_FALSE(built_in.empty());
    EXPECT_EQ(difference(weights(lines, "parts_"), built_in), "");
  }

  std::string parts_;
  int runs_ = 0;
};

TEST_F(PluginParts, AreHeadsModelsLossesOptimizersPoliciesCodecsAndReplicas) {
  expect_same_with_parts(
      "model = {name = '@mlp', hidden = [8, 8]}\n"
      "loss = {name = '@cross_entropy'}\n"
      "optimizer = {name = '@sgd', lr = 0.1}\n"
      "replicas = {count = 2, policy = '@all_reduce'}\n"
      "boundary = {policy = '@local_loss', head = {name = '@linear'}, codec = "
      "'@fp16'}\n");
}

TEST_F(PluginParts, AreWeightViewsAndCorrections) {
  expect_same_with_parts(
      "model = {hidden = [8, 8]}\n"
      "optimizer = {lr = 0.1, correction = {name = '@dynsgd'}}\n"
      "boundary = {policy = '@delayed_gradient', weights = '@stash'}\n");
}

TEST_F(PluginParts, ArePredictorsAndOrders) {
  expect_same_with_parts(
      "model = {hidden = [8, 8]}\n"
      "boundary = {policy = 'synthetic_gradient', synthesizer = {name = "
      "'@layers', width = 8}}\n");
  expect_same_with_parts(
      "model = {hidden = [8, 8]}\n"
      "pipeline = {micro_batches = 2, order = '@gpipe'}\n");
}

TEST_F(PluginParts, AreLayersOfAList) {
  const auto with_scale = [](const std::string& scale) {
    return "model = {name = 'layers', layer = [{type = 'flatten'}, {type = "
           "'@linear', outputs = 8}, " +
           scale + "{type = 'relu'}, {type = '@linear'}]}\n";
  };
  expect_same_with_parts(with_scale(""));
  const NamedTensors without = weights(with_scale(""), "");
  EXPECT_EQ(
      difference(weights(with_scale("{type = 'parts_scale'}, "), ""), without),
      "");
  EXPECT_NE(
      difference(weights(with_scale("{type = 'parts_scale', by = 2}, "), ""),
                 without),
      "");
}

TEST_F(PluginParts, AreTransformsInTheirOrder) {
  const auto trained = [&](double rate, const std::string& transforms) {
    return weights(
        fmt::format("model = {{hidden = [8, 8]}}\noptimizer = {{lr = "
                    "{}, transform = [{}]}}\n",
                    rate, transforms),
        "");
  };
  const NamedTensors half = trained(0.25, "");
  const std::string halves = "{name = 'parts_factor', by = 0.5}";
  EXPECT_EQ(difference(trained(0.5, halves), half), "");
  EXPECT_EQ(difference(trained(1.0, halves + ", " + halves), half), "");
  EXPECT_NE(difference(trained(0.5, ""), half), "");
}

TEST_F(PluginParts, WithoutAPageHaveATimeline) {
  const Outcome page =
      sluice("list methods parts_delayed_gradient --plugin " + parts_);
  EXPECT_EQ(page.status, 0) << page.text;
  EXPECT_THAT(page.text,
              AllOf(HasSubstr("a turn later"), HasSubstr("In three blocks"),
                    Not(HasSubstr("source"))));
}

class PluginRanks : public Plugins {
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

TEST_F(PluginRanks, OfDifferentBuildsAreRefused) {
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

}  // namespace sluice::plugins_test
