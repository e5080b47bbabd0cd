// The programs of tests/examples/, as a user runs them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::examples_test {

using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Examples : public testing::Test {
 protected:
  Examples() {
    std::string pattern =
        std::filesystem::temp_directory_path() / "sluice-test-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Examples() override { std::filesystem::remove_all(folder_); }

  /// Runs a program in a folder of its own; its exit status.
  int run(const std::string& program, const std::string& arguments) {
    return run_at(fmt::format("{}/{}", SLUICE_EXAMPLES, program), arguments);
  }
  int run_sluice(const std::string& arguments) {
    return run_at(SLUICE_PROGRAM, arguments);
  }
  int run_at(const std::string& program, const std::string& arguments) {
    const std::string command =
        fmt::format("cd {} && {} {} 2>&1", folder_, program, arguments);
    FILE* pipe = ::popen(command.c_str(), "r");
    output_.clear();
    std::array<char, 4096> buffer{};
    while (const std::size_t n =
               std::fread(buffer.data(), 1, buffer.size(), pipe))
      output_.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }

  NamedTensors weights_after(const std::string& program,
                             const std::string& engine, std::int64_t turn) {
    EXPECT_EQ(run(program, "threads=1 engine=" + engine), 0) << output_;
    return load_weights(checkpoint_folder(folder_ + "/saved", turn));
  }

  std::string folder_;
  std::string output_;
};

TEST_F(Examples, AProgramWithItsOwnLoopLearnsOnEveryEngineWithTheSameBits) {
  const NamedTensors reference = weights_after("own_network", "virtual", 100);
  EXPECT_THAT(output_, HasSubstr("saved/turn-000100: accuracy 1.00"));
  EXPECT_EQ(difference(weights_after("own_network", "threads", 100), reference),
            "");
  EXPECT_EQ(
      difference(weights_after("own_network", "processes", 100), reference),
      "");
}

TEST_F(Examples, ReplicasOfAProgramHaveTheSameBitsOnEveryEngine) {
  const NamedTensors alone = weights_after("own_network", "virtual", 100);
  for (const std::string replicas :
       {" replicas.count=2 replicas.policy=average replicas.every=5",
        " 'replicas.count=[4, 1, 2]'"}) {
    const NamedTensors reference =
        weights_after("own_network", "virtual" + replicas, 100);
    EXPECT_NE(difference(reference, alone), "");
    for (const std::string engine : {"threads", "processes"})
      EXPECT_EQ(difference(weights_after("own_network", engine + replicas, 100),
                           reference),
                "")
          << engine << replicas;
  }
}

TEST_F(Examples, TheProgramStandsOnItsPageAsItIs) {
  const std::string program = slurp(SLUICE_EXAMPLE_SOURCE);
  EXPECT_THAT(slurp(SLUICE_PROGRAMS_PAGE),
              HasSubstr("```cpp\n" + program + "```\n"));
  EXPECT_LE(std::count(program.begin(), program.end(), '\n'), 25);
}

TEST_F(Examples, TheProgramThatWritesARunStandsOnItsPageToo) {
  const std::string program = slurp(SLUICE_OWN_RUN_SOURCE);
  EXPECT_THAT(slurp(SLUICE_PROGRAMS_PAGE),
              HasSubstr("```cpp\n" + program + "```\n"));
  EXPECT_LE(std::count(program.begin(), program.end(), '\n'), 25);
}

TEST_F(Examples, LinesOfTheReadmesExcerptAreLinesOfTheProgram) {
  const std::string fence = "```cpp\n";
  const std::string readme = slurp(SLUICE_README);
  const std::size_t begin = readme.find(fence);
  ASSERT_NE(begin, std::string::npos);
  std::istringstream excerpt(readme.substr(begin + fence.size()));
  const std::string program = slurp(SLUICE_EXAMPLE_SOURCE);
  int lines = 0;
  for (std::string line; std::getline(excerpt, line) && line != "```";
       ++lines) {
    if (line.find("// ...") != std::string::npos) continue;  // lines left out
    EXPECT_THAT(program, HasSubstr("\n" + line + "\n"));
  }
  EXPECT_THAT(lines, AllOf(Ge(10), Le(12)));
}

// Issue 24: a network of one's own in the same report beside a config's run.
TEST_F(Examples, ANetworkOfOnesOwnIsARunBesideThoseOfConfigs) {
  ASSERT_EQ(run("own_run", "threads=1"), 0) << output_;
  write("theirs.toml",
        "epochs = 1\nthreads = 1\ndata = {train = 256, test = 64}\n");
  ASSERT_EQ(run_sluice("run theirs.toml --dir runs/theirs"), 0) << output_;
  ASSERT_EQ(run_sluice("report runs --out report.html"), 0) << output_;
  const std::string table = slurp(folder_ + "/report_runs.csv");
  EXPECT_THAT(table, AllOf(HasSubstr("local_loss"), HasSubstr("backprop")));
  EXPECT_THAT(slurp(folder_ + "/report.html"), HasSubstr("mine"));
  EXPECT_EQ(run_sluice("watch --once runs/mine"), 0) << output_;
  EXPECT_THAT(output_, AllOf(HasSubstr("mine: local_loss"), HasSubstr("done")));
  EXPECT_EQ(run_sluice("export runs/mine"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("4 tensors"));  // of two linear layers
  EXPECT_EQ(run_sluice("eval runs/mine"), 2);
  EXPECT_THAT(output_, HasSubstr("the program that run.json names"));
}

TEST_F(Examples, ARunGoesToTheFolderThatTheCommandLineSays) {
  ASSERT_EQ(run("own_run", "threads=1 --dir=here"), 0) << output_;
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/here/done"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/runs"));
  EXPECT_EQ(run("own_run", "threads=1 --dir here"), 2);
  EXPECT_THAT(output_, HasSubstr("holds a run already"));
  EXPECT_EQ(run("own_run", "threads=1 --dir here --overwrite"), 0) << output_;
  EXPECT_EQ(run("own_network", "threads=1 --resume"), 2);
  EXPECT_THAT(output_, HasSubstr("add --dir"));
}

TEST_F(Examples, ARunInWorkerProcessesHasTheSameCheckpoint) {
  ASSERT_EQ(run("own_run", "threads=1 --dir one"), 0) << output_;
  ASSERT_EQ(run("own_run", "threads=1 engine=processes --dir two"), 0)
      << output_;
  const auto last = [&](const char* run) {
    return load_weights(
        checkpoint_folder(folder_ + "/" + run + "/checkpoints", 200));
  };
  EXPECT_EQ(difference(last("two"), last("one")), "");
  ASSERT_EQ(run("own_run", "threads=1 seed=9 optimizer.lr=0.01 --dir three"), 0)
      << output_;
  EXPECT_GT(distance(last("three"), last("one")), 0);
}

// Issue 24: a sweep over a program whose loop is its own.
TEST_F(Examples, ALoopOfOnesOwnIsSwept) {
  const std::string sweep =
      "sweep optimizer.lr=0.002,0.01 --seeds 2 --dir sweep threads=1";
  ASSERT_EQ(run("own_run", sweep), 0) << output_;
  EXPECT_THAT(output_,
              AllOf(HasSubstr("4 of 4 runs done"), HasSubstr("; 0 left")));
  std::map<std::string, NamedTensors> weights;  // by folder of the run
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder_ + "/sweep"))
    if (entry.path().filename() == "done") {
      const std::string folder = entry.path().parent_path().string();
      weights[folder] =
          load_weights(checkpoint_folder(folder + "/checkpoints", 200));
    }
  ASSERT_EQ(weights.size(), 4U);
  const NamedTensors& first = weights.begin()->second;
  for (auto other = std::next(weights.begin()); other != weights.end(); ++other)
    EXPECT_GT(distance(other->second, first), 0) << other->first;
  ASSERT_EQ(run("own_run", sweep), 0) << output_;
  EXPECT_THAT(output_,
              AllOf(HasSubstr("4 of 4 runs done"), Not(HasSubstr("; 0 left"))))
      << "they were done";
  ASSERT_EQ(run_sluice("report sweep --out report.html"), 0) << output_;
  const std::string rows = slurp(folder_ + "/report_runs.csv");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 5) << rows;
}

// A cell is repeated by the program's own command line.
TEST_F(Examples, ARunOfASweepHasTheBitsOfTheSameCommandWithoutASweep) {
  ASSERT_EQ(run("own_run", "sweep --seeds 7,8 --dir sweep threads=1"), 0)
      << output_;
  ASSERT_EQ(run("own_run", "seed=7 threads=1 --dir one"), 0) << output_;
  ASSERT_EQ(run("own_run", "seed=8 threads=1 --dir two"), 0) << output_;
  std::string folder;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder_ + "/sweep"))
    if (entry.path().filename() == "seed-7") folder = entry.path().string();
  ASSERT_FALSE(folder.empty());
  const auto last = [](const std::string& run) {
    return load_weights(checkpoint_folder(run + "/checkpoints", 200));
  };
  EXPECT_EQ(difference(last(folder), last(folder_ + "/one")), "");
  EXPECT_GT(distance(last(folder_ + "/two"), last(folder_ + "/one")), 0);
}

TEST_F(Examples, ASweepOfALoopOfOnesOwnRefusesWhatIsNotItsOwn) {
  EXPECT_EQ(run("own_run", "sweep optimizer.lrr=1,2 --dir sweep"), 2);
  EXPECT_THAT(output_, HasSubstr("optimizer.lrr"));
  EXPECT_EQ(run("own_run", "sweep epochs=1,2 --dir sweep"), 2);
  EXPECT_THAT(output_, HasSubstr("your own loop decides it"));
  EXPECT_EQ(run("own_run", "sweep --seeds 2 --launcher slurm --dir sweep"), 2);
  EXPECT_THAT(output_, HasSubstr("leave out --launcher"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/sweep"));
  // A loop that tells no evaluation has nothing to be compared by.
  EXPECT_EQ(run("own_network", "sweep --seeds 1 --dir sweep threads=1"), 3);
  EXPECT_THAT(output_, HasSubstr("net.record()"));
}

TEST_F(Examples, AProgramHasTheCommandsOfSluice) {
  ASSERT_EQ(run("own_commands", "run threads=1 --dir mine"), 0) << output_;
  EXPECT_THAT(slurp(folder_ + "/mine/config.toml"),
              AllOf(HasSubstr("name = \"own\""), HasSubstr("[32] 544")));
  const std::string told = slurp(folder_ + "/mine/metrics.jsonl");
  EXPECT_THAT(told, HasSubstr("\"evaluation\""));
  EXPECT_EQ(run("own_commands", "eval mine"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("accuracy"));
  EXPECT_EQ(run("own_commands", "export mine"), 0) << output_;
  EXPECT_EQ(run("own_commands", "plan --turns 2"), 0) << output_;
  EXPECT_EQ(run("own_commands", "list heads small"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("decay"));
  EXPECT_EQ(run("own_commands", "run --resume mine epochs=6"), 0) << output_;
  EXPECT_EQ(run_sluice("report mine"), 0) << output_;
  EXPECT_EQ(run_sluice("eval mine"), 2);
  EXPECT_THAT(output_, HasSubstr("unknown data set 'points'"));
  write("own.toml", "model.name = \"own\"\n");
  EXPECT_EQ(run_sluice("config own.toml"), 2);
  EXPECT_THAT(output_, HasSubstr("layers of the program that run.json names"));
}

TEST_F(Examples, LayersThatDoNotFitTheDataAreOneLine) {
  EXPECT_EQ(run("own_commands", "run data.name=drawn_digits"), 2);
  EXPECT_THAT(output_, HasSubstr("the layers of this program take [16], 4 "
                                 "classes, and the data set has"));
  EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
}

TEST_F(Examples, AProgramHasTheSameBitsOnEveryEngine) {
  EXPECT_EQ(run("own_commands", "verify --turns 6 threads=1"), 0) << output_;
  // Weights follow from the seed.
  const auto weights = [&](const std::string& dir, const std::string& more) {
    EXPECT_EQ(
        run("own_commands", "run turns=1 threads=1 " + more + " --dir " + dir),
        0)
        << output_;
    return load_weights(
        checkpoint_folder(folder_ + "/" + dir + "/checkpoints", 1));
  };
  const NamedTensors first = weights("first", "seed=1");
  EXPECT_EQ(difference(weights("again", "seed=1 engine=threads"), first), "");
  EXPECT_GT(distance(weights("other", "seed=2"), first), 0.01);
}

TEST_F(Examples, AProgramIsSwept) {
  ASSERT_EQ(run("own_commands",
                "sweep optimizer.lr=0.02,0.05 turns=4 threads=1 --seeds 2 "
                "--dir swept"),
            0)
      << output_;
  ASSERT_EQ(run_sluice("report swept"), 0) << output_;
  EXPECT_THAT(slurp(folder_ + "/swept/report_runs.csv"), HasSubstr("0.02"));
}

TEST_F(Examples, AMethodOfOnesOwnTrainsBesideABuiltInOne) {
  const NamedTensors reference = weights_after("own_method", "virtual", 100);
  EXPECT_THAT(output_, testing::ContainsRegex("loss 0\\.[0-2]"));
  EXPECT_EQ(
      difference(weights_after("own_method", "processes", 100), reference), "");
  EXPECT_EQ(run("own_method", "boundary.1.policy=backprop"), 0) << output_;
  const std::string backprop = checkpoint_folder(folder_ + "/saved", 100);
  EXPECT_GT(distance(load_weights(backprop), reference), 0);
}

TEST_F(Examples, WorkerProcessesBeginWithTheWeightsOfTheLauncher) {
  const NamedTensors reference = weights_after("other_weights", "virtual", 6);
  EXPECT_EQ(
      difference(weights_after("other_weights", "processes", 6), reference),
      "");
  const std::string first = checkpoint_folder(folder_ + "/first", 0);
  EXPECT_GT(distance(load_weights(first), reference), 0);
}

// Issue 18, item 3: what a policy draws while it is made.
TEST_F(Examples, PoliciesOfOnesOwnDrawTheSameOnEveryEngine) {
  const NamedTensors reference = weights_after("own_weights", "virtual", 6);
  const NamedTensors first =
      load_weights(checkpoint_folder(folder_ + "/first", 0));
  EXPECT_GT(distance(first, reference), 0);
  for (const char* engine : {"threads", "processes"}) {
    EXPECT_EQ(difference(weights_after("own_weights", engine, 6), reference),
              "")
        << engine;
    EXPECT_EQ(difference(load_weights(checkpoint_folder(folder_ + "/first", 0)),
                         first),
              "")
        << engine;
  }
  EXPECT_EQ(run("own_weights", "engine=virtual boundary.1.policy=backprop"), 0)
      << output_;
  EXPECT_GT(distance(load_weights(checkpoint_folder(folder_ + "/saved", 6)),
                     reference),
            0);
}

// What worker processes of `sluice run` have had all along.
TEST_F(Examples, AStoppedWorkerIsNamedNotOneThatWaitsForIt) {
  EXPECT_EQ(run("faulty_network", "stop engine=processes timeout=3"), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("of block 2 hangs"), HasSubstr("silent"),
                             Not(HasSubstr("done"))));
}

TEST_F(Examples, AWorkerThatGetsNowhereIsNamedNotOneThatWaitsForIt) {
  EXPECT_EQ(run("faulty_network", "hang engine=processes timeout=3"), 1);
  EXPECT_THAT(output_, AllOf(HasSubstr("of block 2 hangs"),
                             HasSubstr("made no progress"),
                             HasSubstr("timeout is 3 s")));
}

TEST_F(Examples, AKilledWorkerIsNamed) {
  EXPECT_EQ(run("faulty_network", "kill engine=processes"), 1);
  EXPECT_THAT(output_, HasSubstr("of block 2 was ended by signal 9"));
}

TEST_F(Examples, AProgramMayTakeItsTimeBetweenSteps) {
  EXPECT_EQ(run("faulty_network", "pause engine=processes timeout=2"), 0)
      << output_;
  EXPECT_THAT(output_, HasSubstr("done"));
}

TEST_F(Examples, WorkersHaveTheCommandLineOfTheirProgram) {
  EXPECT_EQ(run("faulty_network", "none engine=processes seed=7"), 0)
      << output_;
  const std::string line =
      SLUICE_EXAMPLES "/faulty_network|none|engine=processes|seed=7|\n";
  EXPECT_EQ(slurp(folder_ + "/command_lines"), line + line + line);
}

TEST_F(Examples, AnEnvironmentThatIsNoWorkersIsRefused) {
  ::setenv("SLUICE_WORKER", "yes", 1);
  EXPECT_EQ(run("faulty_network", "none engine=virtual"), 2);
  ::unsetenv("SLUICE_WORKER");
  EXPECT_THAT(output_, HasSubstr("unset it"));
}

TEST_F(Examples, MistakesOnTheCommandLineAreOneLine) {
  EXPECT_EQ(run("own_network", "engine=fibers"), 2);
  EXPECT_THAT(output_, HasSubstr("own_network: command line: engine"));
  EXPECT_EQ(std::count(output_.begin(), output_.end(), '\n'), 1) << output_;
  EXPECT_EQ(run("own_network", "faster"), 2) << output_;
  EXPECT_THAT(output_, HasSubstr("'faster' is no key=value"));
  EXPECT_EQ(run("own_network", "threads=1 --dir"), 2) << output_;
  EXPECT_THAT(output_, HasSubstr("--dir FOLDER"));
}

TEST_F(Examples, AProgramWithALoopSaysWhatItTakes) {
  for (const char* words : {"--help", "-h", "help"}) {
    EXPECT_EQ(run("own_network", words), 0) << output_;
    EXPECT_THAT(output_,
                AllOf(HasSubstr("usage: own_network [key=value ...]"),
                      HasSubstr("--resume"), HasSubstr("sweep --help")));
  }
}

}  // namespace sluice::examples_test
