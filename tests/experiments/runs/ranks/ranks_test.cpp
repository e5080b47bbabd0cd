// Workers that something else has started: mpirun, srun, or a script that sets
// what torchrun does.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "experiments/runs/uses/replay.h"
#include "lib/metrics/time_spent.h"
#include "tests/experiments/helpers/faults.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::ranks_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

bool has(const std::string& program) {
  return std::system(
             fmt::format("command -v {} >/dev/null 2>&1", program).c_str()) ==
         0;
}

int how_often(const std::string& text, const std::string& part) {
  int times = 0;
  for (auto at = text.find(part); at != text.npos;
       at = text.find(part, at + part.size()))
    ++times;
  return times;
}

class Ranks : public Faults {
 protected:
  static constexpr int kBlocks = 3;

  /// `start` in front of the program's command line, as in "mpirun -n 3".
  Outcome start(const std::string& before, const std::string& more = "") {
    return shell(fmt::format("{} {} {}", before, SLUICE_PROGRAM,
                             command("ranks", more)));
  }

  /// All ranks as a shell's children, with the variables of torchrun; `each` is
  /// done before each, and knows its $RANK; `after` when rank 0 has ended,
  /// whose status it is.
  Outcome start_all(const std::string& each, const std::string& arguments,
                    int count = kBlocks, const std::string& after = "wait") {
    return shell(fmt::format(
        "sh {}",
        write("ranks.sh", fmt::format("{}for RANK in $(seq {} -1 0); do\n{}"
                                      "done\nwait $last; status=$?\n{}\n"
                                      "exit $status\n",
                                      variables(count), count - 1,
                                      in_background(each, arguments), after))));
  }

  /// Rank 0, which is killed when rank 1 has ended; the status is rank 1's.
  Outcome start_two(const std::string& each, const std::string& arguments) {
    return shell(fmt::format(
        "sh {}",
        write("ranks.sh", fmt::format("{}for RANK in 0 1; do\n{}done\n"
                                      "wait $last; status=$?\n"
                                      "kill -9 $first\nwait\n"
                                      "exit $status\n",
                                      variables(kBlocks),
                                      in_background(each, arguments)))));
  }

  static std::string variables(int count) {
    return fmt::format("export WORLD_SIZE={} MASTER_PORT={}\n", count,
                       20'000 + ::getpid() % 20'000);
  }

  static std::string in_background(const std::string& each,
                                   const std::string& arguments) {
    return fmt::format(
        "export RANK\n{}\n$before {} {} & last=$!\nall=\"$all $!\"\n"
        "[ $RANK = 0 ] && first=$!\n",
        each, SLUICE_PROGRAM, arguments);
  }

  std::string train(const std::string& more = "") {
    return command("ranks", more);
  }

  /// Several "hosts" that all are this one.
  std::string on_hosts() {
    return "export MASTER_ADDR=127.0.0.1 LOCAL_WORLD_SIZE=1";
  }

  std::string with_secret() {
    const std::string file = write("secret", std::string(64, 'a'));
    fs::permissions(file, fs::perms(0600));
    return fmt::format("{} SLUICE_SECRET_FILE={}", on_hosts(), file);
  }

  /// One rank wants a replica more, for which there are no processes. All end
  /// in far less time than ranks wait for each other.
  Outcome start_with_other_number(int rank, const std::string& each = "",
                                  const std::string& more = "") {
    constexpr double kSoon = 40;  // s
    const auto begun = std::chrono::steady_clock::now();
    Outcome outcome =
        start_all(fmt::format("{}\nMORE=replicas.count=1\n[ $RANK = {} ] && "
                              "MORE=replicas.count=2",
                              each, rank),
                  train("$MORE " + more));
    EXPECT_EQ(outcome.status, 2);
    EXPECT_LT(seconds_since(begun), kSoon);
    expect_nothing_of_ours_left();
    return outcome;
  }

  void expect_bits_of_one_process() {
    const Outcome whole = run("whole", "engine=virtual");
    ASSERT_EQ(whole.status, 0) << whole.text;
    EXPECT_EQ(difference(weights_at_end("whole"), weights_at_end("ranks")), "");
    expect_nothing_of_ours_left();
  }

  void expect_nothing_of_ours_left() {
    EXPECT_THAT(processes_with(path("ranks")), testing::IsEmpty());
    for (const auto& entry : fs::directory_iterator(sockets_))
      EXPECT_THAT(entry.path().filename().string(),
                  Not(testing::StartsWith("sluice-")));
  }
};

TEST_F(Ranks, WithTorchrunsVariablesTrainTheSameBits) {
  const Outcome outcome = start_all("", train());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_bits_of_one_process();
}

TEST_F(Ranks, ContinueARunThatLostOneOfThem) {
  EXPECT_NE(start_all("", train("--inject 'kill block 3 @ turn 9'")).status, 0);
  const Outcome outcome =
      start_all("", fmt::format("run --resume {}", path("ranks")));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_bits_of_one_process();
}

TEST_F(Ranks, OnSeveralHostsTrainTheSameBitsOverTls) {
  const Outcome outcome = start_all(with_secret(), train("transport=tls"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_bits_of_one_process();
}

/// Ranks 0 and 1 are on one "host", rank 2 on another.
TEST_F(Ranks, RanksOfAutoTransportHaveANearNeighbourAndAFarOne) {
  const Outcome outcome =
      start_all(with_secret() + "\nexport SLUICE_HOST_MARK=host$((RANK / 2))",
                train("transport=auto"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("Links go over shared_memory: one host (block 1 - "
                        "block 2); tls: two hosts (block 2 - block 3)"));
  const std::vector<Record> ways = records_of(path("ranks"), "ways");
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(ways[0].text("block 1 - block 2"), "shared_memory: one host");
  EXPECT_EQ(ways[0].text("block 2 - block 3"), "tls: two hosts");
  expect_bits_of_one_process();
}

TEST_F(Ranks, RanksOfAutoTransportFindThatTheyAreOnOneHostAfterAll) {
  const Outcome outcome = start_all(with_secret(), train("transport=auto"));
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("All links go over shared_memory: one host"));
  expect_bits_of_one_process();
}

TEST_F(Ranks, RanksOfAutoTransportOnSeveralHostsNeedASecretToo) {
  const Outcome outcome = start_all(on_hosts(), train("transport=auto"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("SLUICE_SECRET_FILE=FILE"));
}

TEST_F(Ranks, OnSeveralHostsNeedASecret) {
  const Outcome outcome = start_all(on_hosts(), train("transport=tls"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("SLUICE_SECRET_FILE=FILE"));
}

TEST_F(Ranks, WithAnotherSecretAreNotLetIn) {
  const std::string other = fmt::format(
      "{}; [ $RANK = 1 ] && unset SLUICE_SECRET_FILE && export "
      "SLUICE_SECRET={}",
      with_secret(), std::string(64, 'b'));
  // Rank 0 waits for a better one.
  const Outcome outcome = start_two(other, train("transport=tls"));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.text, HasSubstr("block 2 called the launcher"));
  EXPECT_THAT(outcome.text, HasSubstr("TLS"));
}

TEST_F(Ranks, OnSeveralHostsDoNotTalkInTheClear) {
  const auto begun = std::chrono::steady_clock::now();
  const Outcome outcome = start_all(with_secret(), train("transport=tcp"));
  EXPECT_LT(seconds_since(begun), 40) << "all end alike, and wait for none";
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("set transport = 'tls'"));
}

TEST_F(Ranks, AreAsManyAsBlocks) {
  const Outcome outcome = start_all("", train(), 2);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text,
              HasSubstr("has started 2 processes, but the network has 3"));
}

TEST_F(Ranks, WhoseNumbersDifferEndAtOnce) {
  const Outcome outcome = start_with_other_number(2);
  EXPECT_THAT(outcome.text,
              HasSubstr("rank 2 has ended: torchrun has started 3 processes, "
                        "but the network has 3 blocks in 2 replicas"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("it is gone")));
}

TEST_F(Ranks, AreToldWhyRank0HasEnded) {
  EXPECT_THAT(start_with_other_number(0).text, HasSubstr("rank 0 has ended: "));
}

TEST_F(Ranks, OnSeveralHostsTellRank0WhichTellsAll) {
  const Outcome outcome =
      start_with_other_number(2, with_secret(), "transport=tls");
  EXPECT_EQ(how_often(outcome.text, "sluice: rank 2 has ended: "), 2);
}

TEST_F(Ranks, OnSeveralHostsAreAllToldWhyRank0HasEnded) {
  const Outcome outcome =
      start_with_other_number(0, with_secret(), "transport=tls");
  EXPECT_EQ(how_often(outcome.text, "sluice: rank 0 has ended: "), 2);
}

TEST_F(Ranks, NeedTheEngineOfProcesses) {
  const Outcome outcome = start_all("", train("engine=virtual"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("set engine = 'processes'"));
}

TEST_F(Ranks, OneOfThemKilledEndsTheOthersWithItsName) {
  const Outcome outcome =
      start_all("", train("--inject 'kill block 3 @ turn 9'"));
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("block 3"));
  expect_nothing_of_ours_left();
}

TEST_F(Ranks, OneOfThemThatIsStoppedIsNamed) {
  const Outcome outcome =
      start_all("", train("--inject 'stop block 3 @ turn 9' timeout=8"),
                kBlocks, "kill -9 $all 2>/dev/null");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("block 3"));
  EXPECT_THAT(outcome.text, HasSubstr("silent"));
}

// The other ranks wait for its centre, and may give up a little before rank 0.
TEST_F(Ranks, RanksOfAQuorumLoseNoReplicaBecauseTheFirstHangs) {
  const Outcome outcome = start_all(
      "",
      train("blocks=1 schedule=free replicas.count=4 "
            "replicas.policy=all_reduce replicas.backup=1 timeout=6 --inject "
            "'stop block 1 @ turn 4'"),
      4, "kill -9 $all 2>/dev/null");
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.text, HasSubstr("block 1 of replica 1 hangs"));
  EXPECT_TRUE(records_of(path("ranks"), "lost_replica").empty());
}

// All wait for replica 3 at the end, for longer than `timeout`, and nothing
// comes from anybody meanwhile.
TEST_F(Ranks, RanksOfReplicasWaitForASlowOneAsLongAsItTakes) {
  const Outcome outcome = start_all(
      "",
      train("blocks=2 replicas.count=3 replicas.policy=elastic "
            "replicas.one_by_one=true replicas.every=10 schedule=free "
            "replicas.deal=shares in_flight=1 turns=10 evaluate_every=0 "
            "checkpoint.every_turns=10 "
            "transport=shared_memory timeout=3 --inject 'delay 5->6 600ms'"),
      6);
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(replay(path("ranks")).difference(), "");
  double waited = 0;
  for (const Record& block : records_of(path("ranks"), "block"))
    waited = std::max(waited, block.number("waiting_s", 0));
  EXPECT_GT(waited, 3) << "or nobody would have given up";
}

// Processes in a time namespace have a steady clock of their own.
TEST_F(Ranks, RanksOfAnotherClockShareOneTimeline) {
  constexpr double kAhead = 5000;
  const std::string before =
      fmt::format("unshare --time --monotonic {} --fork --kill-child", kAhead);
  if (shell(before + " true").status != 0)
    GTEST_SKIP() << "no time namespace can be made here";
  const Outcome outcome = start_all(
      fmt::format("if [ $RANK = 1 ]; then before='{}'; else before=; fi",
                  before),
      train());
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const auto trace = nlohmann::json::parse(slurp(path("ranks/trace.json")));
  const auto& clocks = trace.at("otherData").at("clocks");
  EXPECT_NEAR(clocks.at("block 2").at("offset_s").get<double>(), kAhead,
              clocks.at("block 2").at("uncertainty_s").get<double>());
  EXPECT_TRUE(clocks.at("block 2").at("corrected"));
  EXPECT_FALSE(clocks.at("block 3").at("corrected"));
  for (const auto& event : trace.at("traceEvents"))
    EXPECT_LT(event.value("ts", 0.0), 1e6 * kAhead / 2) << event;
  expect_bits_of_one_process();
}

TEST_F(Ranks, UnderMpirunTrainTheSameBits) {
  if (!has("mpirun")) GTEST_SKIP() << "no mpirun";
  const Outcome outcome =
      start("mpirun --allow-run-as-root --oversubscribe -n 3");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_bits_of_one_process();
}

TEST_F(Ranks, UnderMpirunOfAutoTransportShareMemory) {
  if (!has("mpirun")) GTEST_SKIP() << "no mpirun";
  const Outcome outcome = start(
      "mpirun --allow-run-as-root --oversubscribe -n 3", "transport=auto");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("All links go over shared_memory: one host"));
  expect_bits_of_one_process();
}

TEST_F(Ranks, UnderMpirunPassAFailureOn) {
  if (!has("mpirun")) GTEST_SKIP() << "no mpirun";
  const Outcome outcome =
      start("mpirun --allow-run-as-root --oversubscribe -n 3",
            "--inject 'kill block 2 @ turn 9' timeout=20");
  EXPECT_NE(outcome.status, 0);
  expect_nothing_of_ours_left();
}

class SlurmRanks : public Ranks {
 protected:
  static constexpr int kNoSlurm = 77;

  void SetUp() override {
    if (!has("slurmctld") || !has("slurmd")) GTEST_SKIP() << "no Slurm";
    if (::getuid() != 0) GTEST_SKIP() << "only root can start a Slurm";
  }
  static std::string with_slurm() {
    return fmt::format("{}/experiments/helpers/with_slurm", SLUICE_TEST_FOLDER);
  }
};

TEST_F(SlurmRanks, UnderSrunTrainTheSameBits) {
  const Outcome outcome =
      start(fmt::format("{} srun --overcommit -n 3", with_slurm()));
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  expect_bits_of_one_process();
}

TEST_F(SlurmRanks, RanksOfABatchScriptAloneStartItsOwnWorkers) {
  const std::string script = write(
      "batch.sh",
      fmt::format("#!/bin/sh\n{} {}\n", SLUICE_PROGRAM, command("ranks", "")));
  // What Slurm knows of a job that failed, beside what the job has said.
  const Outcome outcome =
      shell(fmt::format("{} sh -c 'sbatch --wait --overcommit -n 3 -o {} {} || "
                        "{{ status=$?; scontrol show jobs; exit $status; }}'",
                        with_slurm(), path("batch.log"), script));
  if (outcome.status == kNoSlurm) GTEST_SKIP() << outcome.text;
  ASSERT_EQ(outcome.status, 0) << outcome.text << slurp(path("batch.log"));
  expect_bits_of_one_process();
}

}  // namespace sluice::ranks_test
