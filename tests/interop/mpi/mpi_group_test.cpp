// Replicas over MPI: mpi_peer as four ranks, which are two blocks of two
// replicas.
#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "lib/base/error.h"
#include "lib/replicas/groups/mpi.h"

namespace sluice::mpi_group_test {
namespace {

using ::testing::HasSubstr;

const std::string kMpirun = SLUICE_TEST_MPIRUN;

struct MpirunResult {
  int status = 0;
  std::string output = {};  ///< of all ranks, errors too
};

MpirunResult run(const std::string& command) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(
      ::popen((command + " 2>&1").c_str(), "r"), ::pclose);
  MpirunResult ended;
  std::array<char, 4096> part = {};
  while (const std::size_t size =
             std::fread(part.data(), 1, part.size(), pipe.get()))
    ended.output.append(part.data(), size);
  const int status = ::pclose(pipe.release());
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

/// mpirun's options, where it is Open MPI's: it refuses to be root, and to
/// start more processes than there are cores.
std::string options() {
  static const bool is_open_mpi =
      run(kMpirun + " --version").output.find("Open MPI") != std::string::npos;
  return is_open_mpi ? "--allow-run-as-root --oversubscribe" : "";
}

MpirunResult run_ranks(const std::string& what) {
  return run(fmt::format("timeout 120 {} {} -n 4 {} {} 2", kMpirun, options(),
                         SLUICE_TEST_MPI_PEER, what));
}

#define NEEDS_MPI() \
  if (!has_mpi()) GTEST_SKIP() << "this build has no MPI"

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = text.find(word); at != text.npos;
       at = text.find(word, at + 1))
    ++found;
  return found;
}

TEST(MpiGroup, SumsAreRightInEveryReplicaOfEveryBlock) {
  NEEDS_MPI();
  const MpirunResult ended = run_ranks("sums");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(count(ended.output, "10 sums are right"), 4) << ended.output;
}

TEST(MpiGroup, LayoutsThatDifferAreAnError) {
  NEEDS_MPI();
  const MpirunResult ended = run_ranks("layouts");
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.output,
              HasSubstr("the replicas lay out what they sum differently"));
  EXPECT_EQ(count(ended.output, "can't be summed"), 0) << ended.output;
}

TEST(MpiGroup, AReplicaThatIsLateIsGivenUp) {
  NEEDS_MPI();
  const MpirunResult ended = run_ranks("late");
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.output,
              HasSubstr("replica 1 has waited 0.5 s for the others"));
}

TEST(MpiGroup, AReplicaThatFailsEndsTheOthers) {
  NEEDS_MPI();
  const MpirunResult ended = run_ranks("lost");
  EXPECT_NE(ended.status, 0);
  EXPECT_NE(ended.status, 124) << "they waited";
  EXPECT_THAT(ended.output, HasSubstr("replica 2 fails"));
  EXPECT_EQ(count(ended.output, "ends\n"), 0) << ended.output;
}

TEST(MpiGroup, OtherRanksThanTheGroupNeedsAreAnError) {
  NEEDS_MPI();
  const MpirunResult ended = run_ranks("crowd");
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.output,
              HasSubstr("this is replica 1 of 3, but 1 of 2 among "
                        "the ranks that MPI knows of it"));
}

TEST(MpiGroup, WithoutMpiTheErrorSaysWhatToInstall) {
  if (has_mpi()) GTEST_SKIP() << "this build has MPI";
  try {
    mpi_group(nullptr, {}, Deadline(1));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("libopenmpi-dev"));
  }
  EXPECT_THROW(MpiSession(), UserError);
}

}  // namespace
}  // namespace sluice::mpi_group_test
