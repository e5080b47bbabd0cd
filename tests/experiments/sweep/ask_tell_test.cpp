// `sluice sweep --ask-tell`: what a driver and the program say to each other.
#include "experiments/sweep/ask_tell.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "experiments/config/files/json.h"
#include "experiments/sweep/evaluation_tail.h"
#include "experiments/sweep/request.h"
#include "lib/base/error.h"
#include "tests/experiments/sweep/sweeps.h"

namespace sluice::sweep::ask_tell_test {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(ARequest, IsAProposalOrAPruning) {
  const Request proposal = request_of(
      R"({"id": "a", "params": {"optimizer.lr": 0.1, "model.hidden": [8]},
          "seed": 3})");
  EXPECT_EQ(proposal.id, "a");
  EXPECT_EQ(proposal.seed, 3);
  ASSERT_THAT(proposal.values, SizeIs(2));
  EXPECT_EQ(proposal.values[0].second.literal(), "0.1");
  EXPECT_EQ(proposal.values[1].second.literal(), "[8]");
  EXPECT_EQ(request_of(R"({"prune": 7})").id, 7);
}

struct BadLine {
  const char* name;
  const char* line;
  const char* says;
};

class BadLines : public testing::TestWithParam<BadLine> {};

TEST_P(BadLines, AreErrorsThatSayWhatIsWrong) {
  try {
    request_of(GetParam().line);
    FAIL() << "no error";
  } catch (const BadRequest& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().says));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadLines,
    testing::Values(
        BadLine{"NoJson", "{\"params\": ", "is no JSON"},
        BadLine{"NaN", R"({"params": {"a": NaN}})", "is no JSON"},
        BadLine{"NoObject", "[1]", "a line is a JSON object"},
        BadLine{"NoParams", R"({"id": 1})", "wants params"},
        BadLine{"AList", R"({"params": [1]})", "wants an object"},
        BadLine{"AnUnknownKey", R"({"param": {}})", "did you mean 'params'"},
        BadLine{"Null", R"({"params": {"a": null}})", "null is no value"},
        BadLine{"ASeedAmongParams", R"({"params": {"seed": 1}})", "beside"},
        BadLine{"ASeedThatIsNone", R"({"params": {}, "seed": 0.5})",
                "a seed is a whole number"},
        BadLine{"ANegativeSeed", R"({"params": {}, "seed": -1})",
                "a seed is a whole number"},
        BadLine{"AnIdThatIsNone", R"({"params": {}, "id": [1]})",
                "an id is a text or an integer"},
        BadLine{"AHugeNumber", R"({"params": {"a": 18446744073709551615}})",
                "too large"},
        BadLine{"PruningAndMore", R"({"prune": 1, "params": {}})",
                "nothing beside"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(ARequest, ThatIsNestedAbsurdlyDeepIsAnError) {
  const std::string deep(100'000, '[');
  const std::string end(100'000, ']');
  EXPECT_THROW(
      request_of(fmt::format("{{\"params\": {{\"a\": {}{}}}}}", deep, end)),
      BadRequest);
}

TEST(ConfigAsJson, ComesBack) {
  const auto json = ordered_json::parse(
      R"({"a": 1, "b": [0.5, "x", true], "c": {"d": 1.0}})");
  EXPECT_EQ(json_of(config_of_json(json)).dump(), json.dump());
}

class EvaluationTails : public Program {
 protected:
  void append(const std::string& text) const {
    std::ofstream(path("metrics.jsonl"), std::ios::app) << text;
  }
  static std::string line(int turn) {
    return fmt::format("{{\"kind\":\"evaluation\",\"turn\":{}}}\n", turn);
  }
  static std::vector<std::int64_t> turns(EvaluationTail& tail) {
    std::vector<std::int64_t> turns;
    for (const records::Evaluation& evaluation : tail.next())
      turns.push_back(evaluation.turn);
    return turns;
  }
};

TEST_F(EvaluationTails, SayEachEvaluationOnce) {
  EvaluationTail tail(folder_);
  EXPECT_THAT(turns(tail), ElementsAre());
  append(line(1) + "{\"kind\":\"train\",\"turn\":2}\n" + line(2) + "{\"kind\"");
  EXPECT_THAT(turns(tail), ElementsAre(1, 2));
  append(":\"evaluation\",\"turn\":3}\n");
  EXPECT_THAT(turns(tail), ElementsAre(3));
  // The run goes back to turn 2, and on.
  fs::rename(path("metrics.jsonl"), path("before"));
  append(line(1) + line(2));
  EXPECT_THAT(turns(tail), ElementsAre());
  append(line(3) + line(4));
  EXPECT_THAT(turns(tail), ElementsAre(4));
}

/// The program, and a driver that talks to it.
class Driver {
 public:
  explicit Driver(const std::string& command) {
    int in[2] = {};
    int out[2] = {};
    if (::pipe(in) != 0 || ::pipe(out) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      for (const int end : {in[0], in[1], out[0], out[1]}) ::close(end);
      const std::string line =
          fmt::format("exec {} {} 2>/dev/null", SLUICE_PROGRAM, command);
      ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      std::_Exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = ::fdopen(out[0], "r");
  }
  ~Driver() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    status();
    if (output_ != nullptr) std::fclose(output_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  void say(const std::string& line) const {
    const std::string text = line + "\n";
    EXPECT_EQ(::write(input_, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  void say_no_more() {
    if (input_ >= 0) ::close(input_);
    input_ = -1;
  }
  /// Ends the driver without a word.
  void vanish() {
    std::fclose(output_);
    output_ = nullptr;
    say_no_more();
  }
  void send(int signal) const { ::kill(pid_, signal); }

  /// The next line; null at the end.
  ordered_json hear() const {
    std::string line;
    for (int c = 0; (c = std::fgetc(output_)) != EOF && c != '\n';)
      line += static_cast<char>(c);
    return line.empty() ? ordered_json() : ordered_json::parse(line);
  }
  /// The next line of that kind.
  ordered_json hear(const std::string& event) const {
    for (;;) {
      ordered_json line = hear();
      if (line.is_null() || line["event"] == event) return line;
    }
  }
  /// The exit status, once it has ended.
  int status() {
    say_no_more();
    if (pid_ <= 0) return status_;
    ::waitpid(pid_, &status_, 0);
    pid_ = 0;
    status_ = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1;
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  std::FILE* output_ = nullptr;
  int status_ = 0;
};

class AskTell : public SluiceSweeps {
 protected:
  std::string ask_tell(const std::string& arguments = "",
                       const std::string& dir = "out") const {
    return command(fmt::format("--ask-tell {}", arguments), dir);
  }
  static std::string lr(const std::string& id, const std::string& value,
                        int seed = 1) {
    return fmt::format(
        R"({{"id": {}, "params": {{"optimizer.lr": {}}}, "seed": {}}})", id,
        value, seed);
  }
};

TEST_F(AskTell, AProposalIsRunAndAnswered) {
  Driver driver(ask_tell("evaluate_every=0.5"));
  const ordered_json ready = driver.hear();
  EXPECT_EQ(ready["event"], "ready");
  EXPECT_EQ(ready["done"], 0);
  driver.say(lr("\"a\"", "0.1", 2));
  const ordered_json first = driver.hear();
  EXPECT_EQ(first["event"], "evaluation");
  EXPECT_EQ(first["id"], "a");
  const ordered_json end = driver.hear("end");
  EXPECT_EQ(end["state"], "done") << end;
  EXPECT_EQ(end["id"], "a");
  EXPECT_EQ(end["turn"], 12);
  EXPECT_EQ(end["seed"], 2);
  EXPECT_EQ(end["evaluations"][0]["turn"], first["turn"]);
  EXPECT_EQ(end["evaluations"].back()["accuracy"], end["accuracy"]);
  EXPECT_GE(end["best_accuracy"], end["accuracy"]);
  EXPECT_EQ(end["folder"], path("out/cells/001-0.1/seed-2"));
  EXPECT_EQ(driver.status(), kDone);
}

TEST_F(AskTell, ARunIsThatOfAnySweep) {
  ASSERT_EQ(sweep("optimizer.lr=0.1,0.01", "grid").status, kDone);
  Driver driver(ask_tell("--jobs 2", "asked"));
  driver.say(lr("1", "0.1"));
  driver.say(lr("2", "0.01"));
  EXPECT_EQ(driver.hear("end")["state"], "done");
  EXPECT_EQ(driver.hear("end")["state"], "done");
  EXPECT_EQ(driver.status(), kDone);
  EXPECT_EQ(numbers_of("asked"), numbers_of("grid"));
  auto plan = ordered_json::parse(slurp(path("asked/sweep.json")));
  EXPECT_EQ(plan, ordered_json::parse(slurp(path("grid/sweep.json"))));
  const Outcome report = sluice(fmt::format("report {}", path("asked")));
  EXPECT_EQ(report.status, 0) << report.text;
  EXPECT_THAT(slurp(path("asked/report.html")), HasSubstr("lr=0.01"));
}

TEST_F(AskTell, WhatWasProposedBeforeIsNotRunAgain) {
  {
    Driver driver(ask_tell());
    driver.say(lr("1", "0.1"));
    driver.say(lr("2", "0.1"));  // while it runs, or behind it
    const ordered_json first = driver.hear("end");
    const ordered_json second = driver.hear("end");
    EXPECT_EQ(first["id"], 1);
    EXPECT_EQ(second["id"], 2);
    EXPECT_EQ(first["loss"], second["loss"]);
    driver.say(lr("3", "1e-1"));
    EXPECT_EQ(driver.hear("end")["cached"], true);
    EXPECT_EQ(driver.status(), kDone);
  }
  const auto written =
      fs::last_write_time(path("out/cells/001-0.1/seed-1/done"));
  Driver later(ask_tell());
  EXPECT_EQ(later.hear()["done"], 1);
  later.say(lr("1", "0.1"));
  EXPECT_EQ(later.hear()["event"], "evaluation");
  EXPECT_EQ(later.hear("end")["cached"], true);
  later.say(lr("2", "0.1", 2));
  EXPECT_FALSE(later.hear("end").contains("cached"));
  EXPECT_EQ(later.status(), kDone);
  EXPECT_EQ(fs::last_write_time(path("out/cells/001-0.1/seed-1/done")),
            written);
}

TEST_F(AskTell, ABadLineIsAnsweredAndTheSessionGoesOn) {
  Driver driver(ask_tell());
  driver.say("nonsense \xff");
  ordered_json error = driver.hear("error");
  EXPECT_EQ(error["line"], 1);
  EXPECT_THAT(error["error"].get<std::string>(), HasSubstr("is no JSON"));
  driver.say("");
  driver.say(R"({"id": 5, "params": {"optimiser.lr": 1}})");
  error = driver.hear("error");
  EXPECT_EQ(error["id"], 5);
  EXPECT_EQ(error["line"], 3);
  EXPECT_THAT(error["error"].get<std::string>(),
              HasSubstr("did you mean 'optimizer'"));
  driver.say(R"({"prune": 5})");
  EXPECT_THAT(driver.hear("error")["error"].get<std::string>(),
              HasSubstr("nothing was proposed as 5"));
  driver.say(R"({"params": {"batch_size": 12}})");
  const ordered_json end = driver.hear("end");
  EXPECT_EQ(end["id"], 5);  // the line's number
  EXPECT_EQ(end["state"], "done");
  EXPECT_EQ(driver.status(), kDone);
  // The bad ones are no cells.
  EXPECT_THAT(slurp(path("out/sweep.json")), Not(HasSubstr("optimiser")));
}

TEST_F(AskTell, AFailedRunIsAnsweredWithItsReason) {
  const std::string stale = R"({"params": {"max_staleness": 0,)"
                            R"( "boundary": {"policy": "delayed_gradient"}}})";
  Driver driver(ask_tell());
  driver.say(stale);
  const ordered_json end = driver.hear("end");
  EXPECT_EQ(end["state"], "failed");
  EXPECT_THAT(end["error"].get<std::string>(), HasSubstr("max_staleness is 0"));
  driver.say(stale);
  EXPECT_EQ(driver.hear("end")["cached"], true);
  EXPECT_EQ(driver.status(), kSomeFailed);
}

constexpr const char* kLong = "turns=100000 evaluate_every=1";

TEST_F(AskTell, PrunedRunsStopAndGoOnWhenProposedAgain) {
  Driver driver(ask_tell(kLong));
  driver.say(lr("1", "0.1"));
  const std::int64_t seen = driver.hear("evaluation")["turn"];
  driver.say(R"({"prune": 1})");
  const ordered_json end = driver.hear("end");
  EXPECT_EQ(end["state"], "pruned");
  driver.say(lr("2", "0.1"));
  EXPECT_EQ(driver.hear("evaluation")["turn"], seen);
  for (int i = 0; i < 20; ++i) driver.hear("evaluation");
  driver.say(R"({"prune": 2})");
  EXPECT_EQ(driver.hear("end")["state"], "pruned");
  driver.say(R"({"prune": 1})");  // it knows that it is over
  EXPECT_EQ(driver.status(), kDone);
  const std::string run = path("out/cells/001-0.1/seed-1");
  EXPECT_TRUE(fs::exists(run + ".pruned"));
  EXPECT_THAT(slurp(run + "/run.json"), HasSubstr("continued"));
  EXPECT_FALSE(fs::exists(run + "/done"));
}

TEST_F(AskTell, ASignalLetsRunsSaveCheckpoints) {
  Driver driver(ask_tell(kLong));
  driver.say(lr("1", "0.1"));
  driver.say(lr("2", "0.2"));  // it waits
  driver.hear("evaluation");
  driver.send(SIGTERM);
  EXPECT_EQ(driver.hear("end")["state"], "stopped");
  EXPECT_EQ(driver.hear("end")["state"], "stopped");
  EXPECT_EQ(driver.status(), kNotAllDone);
  EXPECT_TRUE(fs::exists(path("out/cells/001-0.1/seed-1/checkpoints")));
}

TEST_F(AskTell, ADriverThatVanishesLetsRunsSaveCheckpoints) {
  Driver driver(ask_tell(kLong));
  driver.say(lr("1", "0.1"));
  driver.hear("evaluation");
  driver.vanish();
  EXPECT_EQ(driver.status(), kNotAllDone);
  const std::string run = path("out/cells/001-0.1/seed-1");
  EXPECT_FALSE(fs::is_empty(run + "/checkpoints"));
  EXPECT_FALSE(fs::exists(run + ".failed"));
}

TEST_F(AskTell, ASweepWithCellsOfItsOwnIsAnError) {
  for (const char* more : {"optimizer.lr=0.1,0.2", "--seeds 3", "--dry-run",
                           "--launcher slurm", "'sweep.halving={rungs=[1]}'"}) {
    const Outcome outcome = sluice(ask_tell(more) + " < /dev/null");
    EXPECT_EQ(outcome.status, kWrong) << more;
    EXPECT_THAT(outcome.text, HasSubstr("--ask-tell")) << more;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1);
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

}  // namespace sluice::sweep::ask_tell_test
