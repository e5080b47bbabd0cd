// Ranks on several hosts, which are network namespaces of this machine, over
// networks as bad as with_network makes them: the bits of one process, or an
// error that names who can't be reached.
#include <chrono>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/runs/uses/replay.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::networks_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Networks : public Faults {
 protected:
  static constexpr int kNoNetwork = 77;

  void SetUp() override {
    const Outcome trial = shell(with_network("--hosts 1", "true"));
    if (trial.status == kNoNetwork)
      GTEST_SKIP() << "no network namespaces: " << trial.text;
    ASSERT_EQ(trial.status, 0) << trial.text;
  }

  static std::string with_network(const std::string& network,
                                  const std::string& each) {
    return fmt::format("{}/experiments/helpers/with_network {} -- {}",
                       SLUICE_TEST_FOLDER, network, each);
  }

  /// One block on each of three hosts.
  Outcome train(const std::string& network, const std::string& more = "") {
    const std::string secret = write("secret", std::string(64, 'a'));
    fs::permissions(secret, fs::perms(0600));
    return shell(fmt::format(
        "SLUICE_SECRET_FILE={} {}", secret,
        with_network("--hosts 3 " + network,
                     fmt::format("{} {}", SLUICE_PROGRAM,
                                 command("hosts", "transport=tls " + more)))));
  }

  /// Or the network was not what it should be.
  void expect_slowness() {
    const auto summary = records_of(path("hosts"), "summary");
    ASSERT_EQ(summary.size(), 1U);
    EXPECT_GT(summary[0].number("seconds", 0), 0.3);
  }

  /// Returns what the run said.
  std::string expect_bits_of_one_process(const std::string& network,
                                         const std::string& more = "") {
    const Outcome outcome = train(network, more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    const Outcome whole = run("whole", "engine=virtual transport=tls " + more);
    EXPECT_EQ(whole.status, 0) << whole.text;
    EXPECT_EQ(difference(weights_at_end("whole"), weights_at_end("hosts")), "");
    return outcome.text;
  }
};

TEST_F(Networks, WithDelayAndJitterTrainTheSameBits) {
  expect_bits_of_one_process("--delay 50 --jitter 20");
  expect_slowness();
}

TEST_F(Networks, ThatAreSlowTrainTheSameBits) {
  expect_bits_of_one_process("--rate 64");
  expect_slowness();
}

TEST_F(Networks, ThatLosePacketsTrainTheSameBits) {
  const std::string said =
      expect_bits_of_one_process("--loss 2 --delay 2", "turns=60");
  EXPECT_THAT(said, Not(HasSubstr(" 0 lost")));
}

TEST_F(Networks, ThatAreCutForAWhileTrainTheSameBits) {
  const std::string said =
      expect_bits_of_one_process("--delay 20 --cut 300 6", "reconnect=60");
  EXPECT_THAT(said, Not(HasSubstr(" 0 cut")));
}

TEST_F(Networks, ThatResetConnectionsEndTheRun) {
  const Outcome outcome = train("--delay 20 --reset 600");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("to continue after turn"));
}

TEST_F(Networks, ThatResetConnectionsTrainTheSameBitsWithReconnect) {
  const std::string said =
      expect_bits_of_one_process("--delay 20 --reset 300", "reconnect=60");
  EXPECT_THAT(said, Not(HasSubstr(" 0 reset")));
  EXPECT_THAT(said, HasSubstr("broke and was made anew after"));
  double reconnections = 0;
  for (const Record& block : records_of(path("hosts"), "block"))
    reconnections += block.number("reconnections", 0);
  EXPECT_GE(reconnections, 2);  // at both ends
}

TEST_F(Networks, ThatAreCutForEverEndTheRunWithinItsTimeout) {
  const auto before = std::chrono::steady_clock::now();
  const Outcome outcome = train("--delay 20 --cut 300 1000", "timeout=4");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("of block"));
  EXPECT_THAT(outcome.text, HasSubstr("silent for 4."));
  EXPECT_LT(std::chrono::steady_clock::now() - before,
            std::chrono::seconds(40));
}

TEST_F(Networks, ThatStayCutEndTheRunWhenReconnectHasPassed) {
  const Outcome outcome =
      train("--delay 20 --cut 300 1000", "timeout=60 reconnect=2");
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("no new connection was made within 2000 ms"));
}

/// A run on the first host, which replicas of the second join. It goes on until
/// it has met what the test is about, and is stopped then.
class JoinedNetworks : public Networks {
 protected:
  /// The command that succeeds once the run has written so many records.
  std::string has_records(const char* kind, int count) const {
    return fmt::format("[ $(grep -c '\"{}\"' {}/metrics.jsonl) = {} ]", kind,
                       path("run"), count);
  }

  std::string join_command(const char* run, const char* out) const {
    return fmt::format("{} join {} --wait 60 >{} 2>&1\n", SLUICE_PROGRAM,
                       path(run), path(out));
  }

  /// commands: of the second host, when the run has an open door. until: the
  /// command that succeeds when the run has met what it is to meet.
  Outcome meet(const std::string& until, const std::string& network,
               const std::string& commands) {
    const std::string config = write(
        "joined.toml",
        config_with("engine = 'processes'\nschedule = 'free'\nblocks = 1\n"
                    "replicas = {count = 3, start_with = 2, policy = "
                    "'server'}\n"));
    const std::string first_host = fmt::format(
        "  {0} run {1} --dir {2} --door 10.77.0.1 transport=auto turns=4000 "
        "timeout=6 --inject 'slow block 1 x40; slow block 2 x40' &\n"
        "  for i in $(seq 1200); do\n"
        "    kill -0 $! || break\n"
        "    {3} && break\n"
        "    sleep 0.1\n"
        "  done 2>/dev/null\n"
        "  kill $!\n"
        "  wait $!\n",
        SLUICE_PROGRAM, config, path("run"), until);
    const std::string script = write(
        "host.sh",
        fmt::format(
            "host=$RANK\nunset RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR "
            "MASTER_PORT\nexport SLUICE_HOST_MARK=$host\n"
            "if [ $host = 0 ]; then\n{}else\n"
            "  for i in $(seq 400); do\n"
            "    [ -e {}/door.json ] && break\n"
            "    sleep 0.05\n"
            "  done\n{}fi\n",
            first_host, path("run"), commands));
    return shell(with_network("--hosts 2 " + network, "bash " + script));
  }
};

TEST_F(JoinedNetworks, HaveReplicasThatJoinFromOneHostTheRunOfAnother) {
  const Outcome outcome = meet(has_records("joined_replica", 1), "--delay 1",
                               join_command("run", "join.txt"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Replica 3 joins the run"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("is lost")));
  EXPECT_THAT(slurp(path("join.txt")), HasSubstr("the run is over"));
}

TEST_F(JoinedNetworks, ThatAreCutLoseTheReplicaAndNotTheRun) {
  const Outcome outcome =
      meet(has_records("lost_replica", 1), "--delay 1 --cut 400 1000",
           join_command("run", "join.txt"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("Replica 3 joins the run"));
  EXPECT_THAT(outcome.text, HasSubstr("Replica 3 is lost"));
  EXPECT_THAT(outcome.text, HasSubstr("silent for"));
}

// While its links are made: replica 1 waited for it longer than the launcher
// for replica 1, and the run ended.
TEST_F(JoinedNetworks, ThatAreCutWhileAReplicaComesDoNotEndTheRun) {
  const Outcome outcome =
      meet("grep -q ended " + path("join.txt"), "--delay 1 --cut 20 9",
           join_command("run", "join.txt"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(slurp(path("join.txt")), Not(HasSubstr("the run is over")));
}

// A stranger who has all of the run's folder but its secret, then a replica,
// and the replica again when its network is back.
TEST_F(JoinedNetworks, ThatAreCutForAWhileHaveTheReplicaAgain) {
  const std::string commands =
      fmt::format(
          "cp -r {0} {1}\n"
          "sed -i -E 's/(\"secret\": *\")[^\"]*/\\1{2}/' {1}/door.json\n",
          path("run"), path("stranger"), std::string(64, 'b')) +
      join_command("stranger", "stranger.txt") +
      join_command("run", "join.txt") + join_command("run", "again.txt");
  const Outcome outcome =
      meet(has_records("joined_replica", 2), "--delay 1 --cut 700 9", commands);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(slurp(path("stranger.txt")), HasSubstr("secret"));
  EXPECT_THAT(slurp(path("join.txt")), Not(HasSubstr("the run is over")));
  EXPECT_THAT(slurp(path("again.txt")), HasSubstr("the run is over"));
  EXPECT_EQ(records_of(path("run"), "joined_replica").size(), 2U);
  EXPECT_EQ(records_of(path("run"), "lost_replica").size(), 1U);
  EXPECT_EQ(replay(path("run")).difference(), "");
}

}  // namespace sluice::networks_test
