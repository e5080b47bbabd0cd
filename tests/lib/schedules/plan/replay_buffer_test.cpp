// What a replay buffer gives for written-out sequences of writes and reads.
// The label B5 is that of the specification (methods, section 5.6).
#include "lib/schedules/plan/replay_buffer.h"

#include <cstdint>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace sluice::replay_buffer_test {

/// Plays a script: "w3" writes batch 3, "r" reads. What was read, with how
/// often it had been used before: "3:0"; "-" where there was nothing.
std::string played(const std::string& script, const ReplayOptions& options) {
  ReplayBuffer buffer(options);
  std::string found;
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (script[i] == 'w') buffer.write({.batch = script[i + 1] - '0'});
    if (script[i] != 'r') continue;
    const auto use = buffer.read();
    found += found.empty() ? "" : " ";
    found += use ? std::to_string(use->message.batch) + ":" +
                       std::to_string(use->reuse)
                 : "-";
  }
  return found;
}

TEST(ReplayBuffer, B5_OfNothingGivesNothing) {
  EXPECT_EQ(played("r w0 r r", {.max_reuse = 0}), "- 0:0 -");
}

TEST(ReplayBuffer, B5_PriorityLifoPrefersTheLeastUsedThenTheNewest) {
  EXPECT_EQ(played("w0 w1 w2 r r r r w3 r r", {.batches = 4}),
            "2:0 1:0 0:0 2:1 3:0 3:1");
}

TEST(ReplayBuffer, B5_FifoPrefersTheLeastUsedThenTheOldest) {
  EXPECT_EQ(played("w0 w1 w2 r r r r w3 r r",
                   {.batches = 4, .order = ReplayOrder::fifo}),
            "0:0 1:0 2:0 0:1 3:0 1:1");
}

TEST(ReplayBuffer, B5_WrapsAroundAndDropsTheOldest) {
  EXPECT_EQ(played("w0 w1 w2 r r r", {.batches = 2}), "2:0 1:0 2:1");
  EXPECT_EQ(
      played("w0 w1 w2 r r r", {.batches = 2, .order = ReplayOrder::fifo}),
      "1:0 2:0 1:1");
  EXPECT_EQ(played("w0 w1 r w2 r w3 r r", {.batches = 2}), "1:0 2:0 3:0 3:1");
}

TEST(ReplayBuffer, B5_AnEntryThatIsUsedUpLeaves) {
  EXPECT_EQ(played("w0 w1 r r r r r", {.batches = 2, .max_reuse = 1}),
            "1:0 0:0 1:1 0:1 -");
  EXPECT_EQ(played("w0 r r w1 r r", {.max_reuse = 0}), "0:0 - 1:0 -");
}

TEST(ReplayBuffer, B5_WhatIsUsedUpMakesRoom) {
  // 1 has left, so 2 needs no other's place.
  EXPECT_EQ(played("w0 w1 r w2 r r r", {.batches = 2, .max_reuse = 0}),
            "1:0 2:0 0:0 -");
}

TEST(ReplayBuffer, ReplayBufferOfOneBatchGivesTheLastOneWritten) {
  for (const ReplayOrder order :
       {ReplayOrder::priority_lifo, ReplayOrder::fifo})
    EXPECT_EQ(played("w0 r w1 r r w2 w3 r", {.order = order}),
              "0:0 1:0 1:1 3:0");
}

/// The writes of a script for which there is no room, and which are left out.
std::string refused(const std::string& script, const ReplayOptions& options) {
  ReplayBuffer buffer(options);
  std::string found;
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (script[i] == 'r') buffer.read();
    if (script[i] != 'w') continue;
    if (buffer.has_room())
      buffer.write({.batch = script[i + 1] - '0'});
    else
      found += std::string(found.empty() ? "" : " ") + "w" + script[i + 1];
  }
  return found;
}

TEST(ReplayBuffer, B5_HasRoomWhileItCanBeReadAsOftenAsItIsWritten) {
  // Two entries can be read four times.
  EXPECT_EQ(refused("w0 w1 w2 w3 w4 r w5 r w6", {.batches = 2, .max_reuse = 1}),
            "w4 w5");
  EXPECT_EQ(refused("w0 w1 w2 r w3 w4", {.batches = 2, .max_reuse = 0}),
            "w2 w4");
  EXPECT_EQ(refused("w0 w1 w2 w3 w4", {.batches = 2}), "");
}

/// How often each of 10 batches is read from one of the reservoirs of 3.
std::map<std::int64_t, int> read_from_reservoirs(int times) {
  std::map<std::int64_t, int> kept;
  for (int i = 0; i < times; ++i) {
    ReplayBuffer buffer({.batches = 3,
                         .order = ReplayOrder::reservoir,
                         .key = static_cast<std::uint64_t>(i)});
    for (std::int64_t batch = 0; batch < 10; ++batch)
      buffer.write({.batch = batch});
    ++kept[buffer.read()->message.batch];
  }
  return kept;
}

TEST(ReplayBuffer, B5_ReservoirKeepsAUniformSample) {
  // One of each is read; the standard deviation of 9000 / 10 is 28.
  const auto kept = read_from_reservoirs(9000);
  EXPECT_EQ(kept.size(), 10U);
  for (const auto& [batch, times] : kept)
    EXPECT_NEAR(times, 900, 5 * 28) << "batch " << batch;
}

TEST(ReplayBuffer, ReservoirsOfOneKeyChooseAlike) {
  const ReplayOptions options{
      .batches = 2, .order = ReplayOrder::reservoir, .key = 7};
  const char* script = "w0 w1 r r w2 r w3 r r w4 w5 r r";
  EXPECT_EQ(played(script, options), played(script, options));
  std::map<std::string, int> seen;
  for (std::uint64_t key = 0; key < 20; ++key)
    ++seen[played(script,
                  {.batches = 2, .order = ReplayOrder::reservoir, .key = key})];
  EXPECT_GT(seen.size(), 10U);
}

}  // namespace sluice::replay_buffer_test
