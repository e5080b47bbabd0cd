// Issue 18, item 7: replay buffers in grants that end while one block is ahead,
// on every engine.
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/folder/free_schedule.h"
#include "experiments/runs/uses/replay.h"
#include "lib/schedules/plan/replay_buffer.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::buffer_engines_test {

class Buffered : public Program {
 protected:
  std::string run(const std::string& lines) {
    const std::string config = write("c.toml", config_with(lines));
    const Outcome outcome =
        shell(fmt::format("timeout 300 {} run {} --dir {} --overwrite",
                          SLUICE_PROGRAM, config, path("run")));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return config;
  }
};

TEST_F(Buffered, InVirtualTimeDoNotWaitForThemselvesBetweenGrants) {
  const std::string config =
      write("c.toml",
            "engine = 'virtual'\nschedule = 'free'\nturns = 6\nbatch_size = "
            "16\ncheckpoint = {every_turns = 3}\nmodel = {name = 'mlp', "
            "hidden = [8]}\nboundary = {policy = 'local_loss', buffer = "
            "{batches = 1, max_reuse = 0}}\nvirtual = {forward = [0.01], slow "
            "= ['2x1.7']}\ndata = {train = 240, test = 40}\n");
  const Outcome outcome = sluice("run " + config + " --dir " + path("run"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(replay(path("run")).difference(), "");
}

class BufferedOn
    : public Buffered,
      public testing::WithParamInterface<std::tuple<const char*, const char*>> {
};

/// What a block wrote into its buffer had room there, and was not dropped
/// before it was read as often as it had to be: the record of every engine says
/// so, and the virtual engine repeats it.
TEST_P(BufferedOn, DropOnlyWhatTheBufferHasNoUseFor) {
  const auto& [engine, buffer] = GetParam();
  const std::string lines = fmt::format(
      "engine = '{}'\nschedule = 'free'\nblocks = ['0', '1-2', '3-']\n"
      "model = {{hidden = [24, 800, 800, 16]}}\n"
      "checkpoint = {{every_turns = 3}}\n"
      "virtual = {{forward = [0.01], slow = ['2x1.7']}}\n"
      "boundary = {{policy = 'local_loss', buffer = {{{}}}}}\n",
      engine, buffer);
  run(lines);
  const Experiment experiment =
      read_experiment(parse_toml(config_with(lines), "test.toml"), "");
  const auto schedule =
      read_schedule(schedule_of_run(path("run")), experiment.plans.front());
  for (std::size_t block = 1; block < schedule.size(); ++block) {
    ReplayBuffer replayed(
        *experiment.plans.front().blocks[block].free.inbox_below.buffer);
    int reads = 0;
    for (const Action& action : schedule[block]) {
      if (action.op != Op::forward) continue;
      for (; replayed.written() < action.arrived; replayed.write({}))
        EXPECT_TRUE(replayed.has_room())
            << "block " << block + 1 << ", " << to_text(action);
      EXPECT_TRUE(replayed.read()) << to_text(action);
      ++reads;
    }
    EXPECT_EQ(reads, 12);
  }
  EXPECT_EQ(replay(path("run")).difference(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Engines, BufferedOn,
    testing::Combine(
        testing::Values("virtual", "threads", "processes"),
        testing::Values("batches = 1, max_reuse = 0",
                        "batches = 2, max_reuse = 1, order = 'fifo'",
                        "batches = 2, max_reuse = 0, order = 'reservoir'")));

}  // namespace sluice::buffer_engines_test
