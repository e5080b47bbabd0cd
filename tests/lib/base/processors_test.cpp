// Processors that a process may use: Slurm's --cpus-per-task, taskset and
// containers bound them. Issue 55, item 13.
#include "lib/base/processors.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

#include "lib/base/files/temporary_folder.h"

namespace sluice::processors_test {

namespace fs = std::filesystem;

/// Files of cgroups, below a folder of the test's own.
class Cgroups : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::optional<double> quota(const std::string& cgroups) const {
    return quota_of_cgroups(cgroups, folder_.path());
  }

  TemporaryFolder folder_;
};

TEST_F(Cgroups, GroupsOfVersion2BoundThoseBelowThem) {
  write("cpu.max", "max 100000\n");
  write("slurm/job_7/cpu.max", "400000 100000\n");
  write("slurm/job_7/step_0/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/slurm/job_7/step_0\n"), 4);
  write("slurm/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota("0::/slurm/job_7/step_0\n"), 1.5);
  EXPECT_EQ(quota("0::/other\n"), std::nullopt);
}

TEST_F(Cgroups, GroupsOfAContainersOwnNamespaceAreAtTheTop) {
  write("cpu.max", "200000 100000\n");
  EXPECT_EQ(quota("0::/\n"), 2);
}

TEST_F(Cgroups, GroupsOfVersion1HaveAQuotaAndAPeriod) {
  write("cpu,cpuacct/docker/a/cpu.cfs_quota_us", "300000\n");
  write("cpu,cpuacct/docker/a/cpu.cfs_period_us", "100000\n");
  write("cpu,cpuacct/docker/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota("11:cpuset:/\n4:cpu,cpuacct:/docker/a\n"), 3);
  EXPECT_EQ(quota("4:cpuset:/docker/a\n"), std::nullopt);
}

TEST_F(Cgroups, ThatCanNotBeReadBoundNothing) {
  EXPECT_EQ(quota(""), std::nullopt);
  EXPECT_EQ(quota("no cgroup\n0::/gone\n"), std::nullopt);
  write("cpu.max", "many 0\n");
  EXPECT_EQ(quota("0::/\n"), std::nullopt);
}

TEST(Processors, AreTheLeastOfTheirLimits) {
  EXPECT_EQ(processors_within({.affinity = 8}), 8);
  EXPECT_EQ(processors_within({.affinity = 8, .quota = 2}), 2);
  EXPECT_EQ(processors_within({.affinity = 8, .quota = 2.5}), 3);
  EXPECT_EQ(processors_within({.affinity = 8, .quota = 0.1}), 1);
  EXPECT_EQ(processors_within({.affinity = 8, .quota = 16, .omp = 4}), 4);
  EXPECT_EQ(processors_within({.affinity = 2, .omp = 64}), 2);
}

TEST(Processors, AreReadFromTheFirstNumberOfOmpsThreads) {
  EXPECT_EQ(threads_in("4"), 4);
  EXPECT_EQ(threads_in(" 4,2"), 4);
  for (const char* text : {"", "0", "-1", "many", "4x"})
    EXPECT_EQ(threads_in(text), std::nullopt) << text;
}

// std::thread::hardware_concurrency() has all of the machine.
TEST(Processors, AreThoseThatTheProcessMayRunOn) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  std::int64_t found = 0;
  std::jthread([&] {  // a thread of its own, whose affinity ends with it
    int first = 0;
    while (!CPU_ISSET(static_cast<std::size_t>(first), &before)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(first), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    found = usable_processors();
  })
      .join();
  EXPECT_EQ(found, 1);
}

}  // namespace sluice::processors_test
