#include "tests/experiments/helpers/faults.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "lib/checkpoints/checkpoint.h"
#include "tests/experiments/helpers/training.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTurns = 20;

constexpr const char* kConfig =
    "engine = 'processes'\nblocks = 3\nturns = 20\nbatch_size = 24\n"
    "threads = 1\nevaluate_every = 0.6\ntimeout = 120\n"
    "checkpoint = {every_turns = 4}\n"
    "model = {hidden = [12, 12, 12], dropout = 0.2, batch_norm = true}\n"
    "boundary = {policy = 'delayed_gradient'}\n"
    "optimizer = {name = 'adam', lr = 0.01}\n"
    "data = {train = 240, test = 40}\n";

/// In any order, as blocks write side by side.
std::vector<std::string> figures_of(const std::string& dir) {
  std::vector<std::string> lines;
  std::ifstream file(dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    Record record = record_from_json(line);
    const std::string kind = record.text("kind");
    if (kind != "train" && kind != "evaluation" && kind != "phase") continue;
    record.set("time", 0.0);
    lines.push_back(to_json(record));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

Faults::Faults() : config_(write("faults.toml", kConfig)) {
  sockets_ = path("t");
  fs::create_directories(sockets_);
  ::setenv("TMPDIR", sockets_.c_str(), 1);
}

Faults::~Faults() {
  ::unsetenv("TMPDIR");
}

std::string Faults::command(const std::string& dir, const std::string& more) {
  return fmt::format("run {} --dir {} {}", config_, path(dir), more);
}

Outcome Faults::run_with(const std::string& faults, const std::string& more) {
  return run("disturbed",
             fmt::format("on_failure=restart --inject '{}' {}", faults, more));
}

NamedTensors Faults::weights_at_end(const std::string& dir) {
  const auto saved = find_checkpoints(path(dir) + "/checkpoints");
  if (saved.empty()) return {};
  EXPECT_GE(saved.rbegin()->first, kTurns);
  return load_weights(saved.rbegin()->second);
}

void Faults::expect_undisturbed(const std::string& dir,
                                const std::string& more) {
  run_undisturbed(more);
  expect_as_undisturbed(dir);
}

void Faults::run_undisturbed(const std::string& more) {
  const Outcome whole = run("whole", "engine=virtual --overwrite " + more);
  ASSERT_EQ(whole.status, 0) << whole.text;
}

void Faults::expect_as_undisturbed(const std::string& dir) {
  EXPECT_EQ(difference(weights_at_end("whole"), weights_at_end(dir)), "");
  EXPECT_EQ(figures_of(path("whole")), figures_of(path(dir)));
  EXPECT_TRUE(fs::exists(path(dir) + "/done"));
  expect_nothing_left(dir);
}

void Faults::expect_nothing_left(const std::string& dir) {
  EXPECT_EQ(processes_with(path(dir)), std::vector<int>());
  EXPECT_TRUE(fs::is_empty(sockets_));
  for (const auto& entry : fs::recursive_directory_iterator(path(dir)))
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
}

std::vector<Record> records_of(const std::string& dir,
                               const std::string& kind) {
  std::vector<Record> records;
  std::ifstream file(dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line) && !file.eof();) {
    Record record = record_from_json(line);
    if (record.text("kind") == kind) records.push_back(std::move(record));
  }
  return records;
}

std::vector<int> processes_with(const std::string& word) {
  std::vector<int> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        slurp(entry.path().string() + "/cmdline").find(word) !=
            std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

int worker_of(const std::string& dir, int block) {
  using namespace std::string_literals;
  const auto found = processes_with("worker\0--dir\0"s + dir + "\0--block\0"s +
                                    std::to_string(block) + "\0"s);
  return found.empty() ? 0 : found.front();
}

}  // namespace sluice
