// Runs whose blocks ran free, repeated from their record.
#include "experiments/runs/uses/replay.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/run.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::replay_test {

using testing::HasSubstr;
using testing::StartsWith;

/// Block 2 is the slow one.
constexpr const char* kNet =
    "blocks = ['0', '1-2', '3-']\nschedule = 'free'\n"
    "model = {hidden = [24, 1200, 1200, 16], batch_norm = true, dropout = "
    "0.2}\nevaluate_every = 0.5\ncheckpoint = {every_turns = 4}\n";

constexpr std::pair<const char*, const char*> kConfigs[] = {
    {"DelayedGradient",
     "in_flight = 4\nboundary = {policy = 'delayed_gradient'}\n"},
    {"SyntheticGradient",
     "in_flight = 4\nboundary = {policy = 'synthetic_gradient'}\n"},
    {"AccumulatedReplay",
     "in_flight = 4\naccumulate = {batches = 3}\n"
     "boundary = {policy = 'features_replay', statistics = 'both'}\n"},
    {"Codec",
     "in_flight = 4\nboundary = {policy = 'delayed_gradient', codec = "
     "'int8'}\n"},
    {"Arrival",
     "in_flight = 4\npriority = 'arrival'\n"
     "accumulate = {by_block = [4, 1, 2]}\n"
     "boundary = {policy = 'delayed_gradient', weights = 'mixed'}\n"},
    // Checkpoints have the average, also those that no evaluation precedes.
    {"Average",
     "in_flight = 4\noptimizer = {average = 0.5}\n"
     "boundary = {policy = 'delayed_gradient'}\n"},
    {"Buffers", "boundary = {policy = 'local_loss', buffer = {batches = 3}}\n"},
    {"BuffersWithoutReuse",
     "boundary = {policy = 'local_loss', buffer = {batches = 3, max_reuse = 0, "
     "order = 'reservoir'}}\n"},
    {"Latest",
     "in_flight = 3\nboundary = {policy = 'local_loss', slow_consumer = "
     "'latest', 2 = {policy = 'delayed_gradient'}}\n"},
    {"DropOldestIntoABuffer",
     "boundary = {policy = 'local_loss', slow_consumer = 'drop_oldest', buffer "
     "= {batches = 2}}\n"},
    {"Timetable",
     "in_flight = 4\nboundary = {policy = 'delayed_gradient'}\n"
     "timetable = [{turn = 5, boundary = {policy = 'local_loss'}}, "
     "{turn = 8, boundary = {1 = {policy = 'fully_decoupled'}}}]\n"},
    {"TimetableAboveABuffer",
     "in_flight = 3\naccumulate = {batches = 2}\n"
     "boundary = {policy = 'local_loss', 1 = {buffer = {batches = 3}}}\n"
     "timetable = [{turn = 5, boundary = {2 = {policy = "
     "'delayed_gradient'}}}]\n"},
    {"TimetableAboveLatest",
     "in_flight = 3\n"
     "boundary = {policy = 'local_loss', 1 = {slow_consumer = 'latest'}}\n"
     "timetable = [{accuracy = 0.01, boundary = {2 = {policy = "
     "'synthetic_gradient'}}}]\n"}};

const char* lines_of(std::string_view name) {
  for (const auto& [of, lines] : kConfigs)
    if (of == name) return lines;
  ADD_FAILURE() << "no config is called " << name;
  return "";
}

constexpr std::string_view kShared = "shared_memory";

class FreeFolder : public Program {
 protected:
  /// Runs it on an engine, in the folder "run"; "shared_memory" is that of
  /// processes, over that transport.
  RunResult run_free(const std::string& engine, const std::string& lines) {
    const std::string where = engine == kShared
                                  ? fmt::format(
                                        "engine = 'processes'\ntransport = "
                                        "'{}'\n",
                                        kShared)
                                  : fmt::format("engine = '{}'\n", engine);
    const std::string config = where + config_with(kNet + lines);
    StopSignals signals;
    return run(read_experiment(parse_toml(config, "test.toml"), ""),
               {.folder = path("run"),
                .overwrite = true,
                .quiet = true,
                .program = SLUICE_PROGRAM},
               signals);
  }
  std::vector<std::string> record() const {
    std::vector<std::string> lines;
    std::ifstream file(path("run/schedule.txt"));
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  void set_record(const std::vector<std::string>& lines) const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    write("run/schedule.txt", text);
  }
  /// Error of the replay.
  std::string refusal() const {
    try {
      replay(path("run"));
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }
};

class FreeEngine
    : public FreeFolder,
      public testing::WithParamInterface<
          std::tuple<const char*, std::pair<const char*, const char*>>> {};

TEST_P(FreeEngine, IsReplayedBitForBit) {
  const auto& [engine, config] = GetParam();
  run_free(engine, config.second);
  const ReplayResult replayed = replay(path("run"));
  EXPECT_EQ(replayed.difference(), "");
  EXPECT_EQ(replayed.compared.size(), 3U * 3) << "checkpoints 4, 8 and 12";
}

INSTANTIATE_TEST_SUITE_P(Engines, FreeEngine,
                         testing::Combine(testing::Values("virtual", "threads",
                                                          "processes",
                                                          "shared_memory"),
                                          testing::ValuesIn(kConfigs)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param).first;
                         });

/// Swaps the first update in a line that is followed by a forward with it.
bool swap_update_and_forward(std::string& line) {
  for (std::size_t u = line.find(" U"); u != line.npos;
       u = line.find(" U", u + 1)) {
    const std::size_t f = line.find(' ', u + 1);
    if (f == line.npos || line[f + 1] != 'F') continue;
    const std::size_t end = std::min(line.find(' ', f + 1), line.size());
    line = line.substr(0, u) + line.substr(f, end - f) + line.substr(u, f - u) +
           line.substr(end);
    return true;
  }
  return false;
}

class Tampered : public FreeFolder,
                 public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { run_free(GetParam(), lines_of("DelayedGradient")); }
};

TEST_P(Tampered, OrderOfAnUpdateAndAForwardDiffers) {
  std::vector<std::string> lines = record();
  ASSERT_TRUE(swap_update_and_forward(lines[0])) << lines[0];
  set_record(lines);
  EXPECT_THAT(replay(path("run")).difference(), HasSubstr("block 1: layers.0"));
}

TEST_P(Tampered, ImpossibleOrderIsRefused) {
  std::vector<std::string> lines = record();
  const std::size_t at = lines[2].find("B0 U0");
  ASSERT_NE(at, std::string::npos);
  lines[2].replace(at, 5, "U0 B0");
  set_record(lines);
  EXPECT_THAT(refusal(), HasSubstr("block 3 (U0) lacks a backward of batch 0"));
}

TEST_P(Tampered, ShortenedRecordIsRefused) {
  std::vector<std::string> lines = record();
  ASSERT_TRUE(lines[0].ends_with(" C12"));
  lines[0].resize(lines[0].size() - 4);
  set_record(lines);
  EXPECT_THAT(refusal(), HasSubstr("never comes to the checkpoint of turn 12"));
}

TEST_P(Tampered, DropOfWhatWasNotLossyIsRefused) {
  std::vector<std::string> lines = record();
  lines[0].replace(lines[0].find("F3"), 2, "F3-1");
  set_record(lines);
  EXPECT_THAT(refusal(), HasSubstr("slow_consumer"));
}

INSTANTIATE_TEST_SUITE_P(Engines, Tampered,
                         testing::Values("threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

class SlowConsumerOn : public FreeFolder,
                       public testing::WithParamInterface<const char*> {};

TEST_P(SlowConsumerOn, CountsAndRecordsWhatItDrops) {
  const RunResult result =
      run_free(GetParam(),
               "boundary = {1 = {policy = 'local_loss', slow_consumer = "
               "'latest'}, 2 = {policy = 'local_loss'}}\n");
  const std::string line = record().at(0);
  const auto dropped = std::count(line.begin(), line.end(), '-');
  EXPECT_GT(dropped, 0) << line;
  EXPECT_EQ(result.dropped, (std::map<int, std::int64_t>{{1, dropped}}));
}

TEST_P(SlowConsumerOn, EveryBatchIsDroppedOrForwardedOnce) {
  run_free(GetParam(), lines_of("Latest"));
  const std::vector<std::string> lines = record();
  for (int batch = 0; batch < 12; ++batch) {
    const std::string name = std::to_string(batch);
    const auto times = [&](const std::string& line, const std::string& word) {
      int count = 0;
      for (std::size_t at = 0; (at = line.find(word, at)) != line.npos; ++at) {
        const std::size_t end = at + word.size();
        count += end == line.size() ||
                 !std::isdigit(static_cast<unsigned char>(line[end]));
      }
      return count;
    };
    const int dropped = times(lines[0], "-" + name);
    EXPECT_EQ(times(lines[0], "F" + name), 1);
    for (const std::string& above : {lines[1], lines[2]})
      EXPECT_EQ(times(above, "F" + name) + dropped, 1)
          << batch << ": " << above;
    EXPECT_EQ(times(lines[1], "U" + name) + dropped, 1);
  }
}

TEST_P(SlowConsumerOn, ThatBlocksDropsNothing) {
  const RunResult result =
      run_free(GetParam(), "boundary = {policy = 'local_loss'}\n");
  EXPECT_EQ(record().at(0).find('-'), std::string::npos);
  EXPECT_TRUE(result.dropped.empty());
}

INSTANTIATE_TEST_SUITE_P(Engines, SlowConsumerOn,
                         testing::Values("threads", "processes"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST_F(FreeFolder, WithoutItsPhasesIsRefusedOrDiffers) {
  run_free("threads", lines_of("Timetable"));
  std::vector<std::string> lines = record();
  for (std::string& line : lines)
    for (const std::string_view phase : {" P1", " P2"}) {
      const std::size_t at = line.find(phase);
      ASSERT_NE(at, std::string::npos) << line;
      line.erase(at, phase.size());
    }
  set_record(lines);
  const std::string why = refusal();
  if (why == "accepted")
    EXPECT_NE(replay(path("run")).difference(), "");
  else
    EXPECT_THAT(why, HasSubstr("is no record of this run"));
}

TEST_F(FreeFolder, TamperedCheckpointDiffers) {
  run_free("threads", lines_of("DelayedGradient"));
  std::filesystem::copy(path("run/checkpoints/turn-000008/block-2.safetensors"),
                        path("run/checkpoints/turn-000012/block-2.safetensors"),
                        std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(replay(path("run")).difference(),
              StartsWith("turn 12, block 2: layers.1"));
}

TEST_F(FreeFolder, FreeFolderOfABufferCantBeReadBeforeItIsWritten) {
  run_free("threads", lines_of("Buffers"));
  std::vector<std::string> lines = record();
  const std::size_t at = lines[1].find('<');
  lines[1].replace(at + 1, lines[1].find(' ', at) - at - 1, "99");
  set_record(lines);
  EXPECT_THAT(refusal(), HasSubstr("reads when 99 messages"));
}

TEST_F(FreeFolder, FreeFolderOfALockstepRunIsRefused) {
  const std::string config = write("config.toml", config_with("blocks = 2\n"));
  weights_on("virtual", config);
  const Outcome outcome = sluice("replay " + path("virtual"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("sluice verify"));
}

TEST_F(FreeFolder, ProgramSaysSameBitsOrWhatDiffers) {
  run_free("threads", lines_of("DelayedGradient"));
  const Outcome same = sluice("replay " + path("run"));
  EXPECT_EQ(same.status, 0) << same.text;
  EXPECT_THAT(same.text, HasSubstr(path("run") + ": same bits"));
  std::vector<std::string> lines = record();
  ASSERT_TRUE(swap_update_and_forward(lines[0]));
  set_record(lines);
  const Outcome differs = sluice("replay " + path("run"));
  EXPECT_EQ(differs.status, 1);
  EXPECT_THAT(differs.text, HasSubstr("differs first at turn "));
}

TEST_F(FreeFolder, IsVerifiedByItsReplays) {
  const std::string config =
      write("config.toml",
            config_with(std::string(kNet) + lines_of("DelayedGradient")));
  const Outcome outcome =
      sluice("verify " + config + " --turns 6 --engines threads");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("its replay: same bits"));
}

}  // namespace sluice::replay_test
