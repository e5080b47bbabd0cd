// Issue 18, item 13: what a launcher has open is not what its workers have.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/program.h"

namespace sluice::descriptors_test {

namespace fs = std::filesystem;

/// What a process has open but standard input, output and errors: paths, and
/// numbers of sockets and pipes.
std::set<std::string> open_in(const std::string& process) {
  std::set<std::string> found;
  std::error_code gone;
  for (const auto& entry :
       fs::directory_iterator("/proc/" + process + "/fd", gone)) {
    if (std::stoi(entry.path().filename().string()) < 3) continue;
    found.insert(fs::read_symlink(entry.path(), gone).string());
  }
  return found;
}

std::vector<std::string> children_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/task/" + process + "/children");
  std::vector<std::string> children;
  for (std::string child; file >> child;) children.push_back(child);
  return children;
}

/// Whether the descriptor is of a kind whose link says which one it is.
bool has_identity(const std::string& link) {
  return link.starts_with("/") || link.starts_with("socket:") ||
         link.starts_with("pipe:");
}

TEST_F(Program, WorkersInheritNothingOfTheirLauncher) {
  const std::string config =
      write("c.toml",
            "turns = 1000000\nbatch_size = 20\nthreads = 1\nengine = "
            "'processes'\nmodel = {hidden = [4]}\ndata = {train = 40, test = "
            "20}\n");
  const Outcome start =
      shell(std::string(SLUICE_PROGRAM) + " run " + config + " --dir " +
            path("run") + " > " + path("log") + " 2>&1 & echo $!");
  const std::string launcher = start.text.substr(0, start.text.find('\n'));
  struct KilledAtEnd {
    ~KilledAtEnd() { ::kill(process, SIGKILL); }
    int process;
  } const killed{std::stoi(launcher)};
  const auto has_begun = [&] {
    return slurp(path("run/metrics.jsonl")).find("train") != std::string::npos;
  };
  for (int i = 0; i < 1200 && !has_begun(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(has_begun()) << slurp(path("log"));
  const std::set<std::string> ours = open_in("self");
  const std::set<std::string> launchers = open_in(launcher);
  EXPECT_TRUE(launchers.contains(fs::canonical(path("run/metrics.jsonl"))))
      << slurp(path("log"));
  const auto workers = children_of(launcher);
  EXPECT_EQ(workers.size(), 2U) << slurp(path("log"));
  for (const std::string& worker : workers)
    for (const std::string& link : open_in(worker))
      EXPECT_FALSE(has_identity(link) && launchers.contains(link) &&
                   !ours.contains(link))
          << link;
}

}  // namespace sluice::descriptors_test
