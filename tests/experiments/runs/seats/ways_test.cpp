#include "experiments/runs/seats/ways.h"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "tests/experiments/helpers/faults.h"

namespace sluice::ways_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

constexpr const char* kOneHost = "shared_memory: one host";
constexpr const char* kTwoHosts = "tls: two hosts";

Experiment experiment_with(const std::string& lines) {
  return read_experiment(
      parse_toml(
          "engine = 'processes'\nturns = 4\nmodel = {hidden = [8, 8, 8]}\n"
          "data = {train = 64, test = 16}\nbatch_size = 8\n" +
              lines,
          "ways"),
      "");
}

RendezvousOptions chosen(const std::string& lines, bool one_host) {
  RendezvousOptions options;
  options.reconnect = std::chrono::seconds(3);
  choose_transports(experiment_with(lines), one_host, options);
  return options;
}

TEST(Ways, TransportsOfANamedTransportAreThatForAll) {
  for (const bool one_host : {true, false}) {
    const RendezvousOptions options = chosen("transport = 'tcp'", one_host);
    EXPECT_EQ(options.transport, "tcp");
    EXPECT_EQ(options.near, "");
  }
  EXPECT_FALSE(ways_of(experiment_with("transport = 'tcp'"), {}));
}

TEST(Ways, TransportsOfAutoAreSharedMemoryOnOneHost) {
  const RendezvousOptions options = chosen("transport = 'auto'", true);
  EXPECT_EQ(options.transport, "shared_memory");
  EXPECT_EQ(options.near, "");
  EXPECT_EQ(options.reconnect.count(), 0);
}

TEST(Ways, TransportsOfAutoAreEncryptedBetweenHosts) {
  const RendezvousOptions options = chosen("transport = 'auto'", false);
  EXPECT_EQ(options.transport, "tls");
  EXPECT_EQ(options.near, "shared_memory");
  EXPECT_NE(options.mark, "");
  EXPECT_EQ(options.reconnect, std::chrono::seconds(3));
}

TEST(Ways, AreToldByTheLaunchersAddress) {
  EXPECT_TRUE(is_of_one_host("/tmp/sluice-tmp-abcdef/launcher"));
  EXPECT_FALSE(is_of_one_host("10.0.0.1:29500"));
  EXPECT_FALSE(is_of_one_host("[::1]:29500"));
}

TEST(Ways, GoByTheMarksOfHosts) {
  const Experiment experiment =
      experiment_with("transport = 'auto'\nblocks = 3");
  EXPECT_THAT(ways_of(experiment, {"a", "a", "b"})->links,
              ElementsAre(Pair("block 1 - block 2", kOneHost),
                          Pair("block 2 - block 3", kTwoHosts)));
  EXPECT_THAT(ways_of(experiment, {})->links,
              ElementsAre(Pair("block 1 - block 2", kOneHost),
                          Pair("block 2 - block 3", kOneHost)));
}

/// As the links themselves have it (NearLinks.AreNoneWithoutAMark).
TEST(Ways, AreEncryptedWhereAHostHasNoMark) {
  const auto ways =
      ways_of(experiment_with("transport = 'auto'\nblocks = 3"), {"", "", "b"});
  ASSERT_TRUE(ways.has_value());
  for (const auto& [link, way] : ways->links)
    EXPECT_EQ(way, "tls: no /proc tells the host") << link;
}

TEST(Ways, AreThoseOfReplicasToo) {
  const Experiment experiment =
      experiment_with("transport = 'auto'\nblocks = 2\nreplicas = {count = 2}");
  EXPECT_THAT(
      ways_of(experiment, {"a", "a", "b", "b"})->links,
      ElementsAre(
          Pair("block 1 of replica 1 - block 2 of replica 1", kOneHost),
          Pair("block 1 of replica 1 - block 1 of replica 2", kTwoHosts),
          Pair("block 2 of replica 1 - block 2 of replica 2", kTwoHosts),
          Pair("block 1 of replica 2 - block 2 of replica 2", kOneHost)));
}

TEST(Ways, TransportsOfOneBlockAreNone) {
  EXPECT_FALSE(ways_of(experiment_with("transport = 'auto'\nblocks = 1"), {}));
}

TEST(Ways, AreALineForTheConsole) {
  EXPECT_EQ(ways_text({.links = {{"block 1 - block 2", kOneHost}}}),
            "All links go over shared_memory: one host");
  EXPECT_EQ(ways_text({.links = {{"block 1 - block 2", kTwoHosts},
                                 {"block 2 - block 3", kOneHost},
                                 {"block 3 - block 4", kTwoHosts}}}),
            "Links go over shared_memory: one host (block 2 - block 3); tls: "
            "two hosts (block 1 - block 2, block 3 - block 4)");
}

/// The program.
class AutoTransport : public Faults {};

TEST_F(AutoTransport, HasTheBitsOfOneProcessAndSaysWhichWay) {
  const Outcome outcome = run("auto", "transport=auto");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("All links go over shared_memory: one host"));
  expect_undisturbed("auto");
  const std::vector<Record> ways = records_of(path("auto"), "ways");
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_THAT(ways[0].as<records::Ways>()->links,
              ElementsAre(Pair("block 1 - block 2", kOneHost),
                          Pair("block 2 - block 3", kOneHost)));
}

TEST_F(AutoTransport, IsSaidWhereTheConfigLeavesTheChoiceOnly) {
  const Outcome outcome = run("named", "transport=shared_memory");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, Not(HasSubstr("inks go over")));
  EXPECT_THAT(records_of(path("named"), "ways"), IsEmpty());
}

}  // namespace sluice::ways_test
