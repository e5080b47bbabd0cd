// `sluice doctor`, and the program without a command.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/program.h"

namespace sluice::doctor_test {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class Doctor : public Program {
 protected:
  /// What the program prints with these variables in its environment.
  std::string with(const std::string& environment) const {
    const Outcome outcome =
        shell(fmt::format("env {} {} doctor", environment, SLUICE_PROGRAM));
    EXPECT_EQ(outcome.status, 0);
    return outcome.text;
  }
  /// A file of MNIST as its authors name it.
  void write_mnist(const std::string& name) const {
    std::filesystem::create_directories(path("mnist"));
    std::ofstream(path("mnist/" + name)) << "x";
  }
};

TEST_F(Doctor, ShowsWhatTheBuildAndTheHostHave) {
  EXPECT_THAT(with("-u SLUICE_DATA"),
              AllOf(ContainsRegex("LibTorch +2\\."), ContainsRegex("MPI +"),
                    ContainsRegex("processor +."),
                    ContainsRegex("shared memory +[0-9.]+ GiB"),
                    ContainsRegex("drawn_digits +here")));
}

TEST_F(Doctor, CountsCoresWithinTheLimitsOfItsProcess) {
  EXPECT_THAT(with("OMP_NUM_THREADS=1"),
              ContainsRegex("cores +1 of .*OMP_NUM_THREADS: 1\n"));
  EXPECT_THAT(with("taskset -c 0 env -u OMP_NUM_THREADS"),
              ContainsRegex("cores +1 of 1 .*OMP_NUM_THREADS: not set\n"));
}

TEST_F(Doctor, NamesTheCommandThatBringsADataSetUntilAllItsFilesAreThere) {
  const std::string root = "SLUICE_DATA=" + path("");
  const auto missing = HasSubstr("sluice data fetch mnist --root " + path(""));
  EXPECT_THAT(with("-u SLUICE_DATA"),
              HasSubstr("sluice data fetch mnist --root DIR"));
  for (const char* name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz"}) {
    EXPECT_THAT(with(root), missing);
    write_mnist(name);
  }
  EXPECT_THAT(with(root), ContainsRegex("mnist +here\n"));
}

TEST_F(Doctor, IsNamedFirstWhereNoCommandIsGiven) {
  const Outcome outcome = sluice("");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("doctor"), HasSubstr("run CONFIG"),
                                  HasSubstr("--help")));
}

TEST(CommandGroups, PutEachCommandUnderAHeadingWithAnExample) {
  const std::string help = sluice("--help").text;
  EXPECT_THAT(help, testing::Not(HasSubstr("Subcommands:")));
  for (const char* heading :
       {"Train:", "Look at results:", "Predict and check:", "Look things up:",
        "Bring your own:"})
    EXPECT_THAT(help, HasSubstr(heading));
  EXPECT_THAT(sluice("verify --help").text,
              HasSubstr("Example: sluice verify CONFIG"));
}

}  // namespace sluice::doctor_test
