// Issue 18, item 13: what a run asks git starts no program of the repository's,
// and doesn't wait for ever.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "experiments/runs/folder/limited_command.h"
#include "experiments/runs/folder/provenance.h"
#include "lib/base/error.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::git_test {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr CommandLimits kLimits = {.time = std::chrono::minutes(5),
                                   .bytes = 1000};

TEST(LimitedCommand, GivesWhatACommandWrites) {
  const CommandEnd end = run_limited({"echo", "words"}, {}, kLimits);
  EXPECT_EQ(end.out, "words\n");
  EXPECT_EQ(end.failure, "");
}

TEST(LimitedCommand, HasTheGivenEnvironmentOnly) {
  EXPECT_EQ(run_limited({"env"}, {"A=1"}, kLimits).out, "A=1\n");
}

TEST(LimitedCommand, SaysWhatWentWrong) {
  EXPECT_EQ(run_limited({"false"}, {}, kLimits).failure, "false failed");
  EXPECT_NE(run_limited({"/nowhere/x"}, {}, kLimits).failure.find("started"),
            std::string::npos);
  EXPECT_EQ(run_limited({"yes"}, {}, kLimits).failure,
            "yes wrote more than 1000 bytes");
  EXPECT_EQ(run_limited({"sh", "-c", "sleep 1000 & sleep 1000"}, {},
                        {.time = milliseconds(100), .bytes = 1000})
                .failure,
            "sh took longer than 0.1 s");
}

class Repository : public Program {
 protected:
  Repository() {
    write("c.toml",
          "turns = 2\nbatch_size = 20\nthreads = 1\nmodel = {hidden = [4]}\n"
          "data = {train = 40, test = 20}\n");
    write("spy", "#!/bin/sh\ntouch " + path("started") + "\n");
    fs::permissions(path("spy"), fs::perms(0755));
    in_repository(
        "git init -q . && git config user.email a@b && git config user.name a "
        "&& echo '* diff=spy' > .gitattributes && git add -A && git commit -qm "
        "first && echo '# changed' >> c.toml");
  }

  Outcome in_repository(const std::string& command) const {
    Outcome end = shell("cd " + folder_ + " && " + command);
    EXPECT_EQ(end.status, 0) << end.text;
    return end;
  }
  nlohmann::json run(const std::string& environment = "") const {
    in_repository("env " + environment + " " + SLUICE_PROGRAM +
                  " run c.toml --overwrite --dir run");
    return nlohmann::json::parse(slurp(path("run/run.json")));
  }
};

TEST_F(Repository, StartsNoProgramOfItsOwnForARun) {
  in_repository("git config diff.external " + path("spy"));
  in_repository("git config diff.spy.textconv " + path("spy"));
  in_repository("git config core.fsmonitor " + path("spy"));
  const auto said = run("GIT_EXTERNAL_DIFF=" + path("spy"));
  EXPECT_FALSE(fs::exists(path("started")));
  EXPECT_EQ(said["uncommitted_changes"], true);
  EXPECT_EQ(said["commit"].get<std::string>().size(), 40U);
  EXPECT_NE(slurp(path("run/changes.patch")).find("+# changed"),
            std::string::npos);
  in_repository("git diff > /dev/null");
  EXPECT_TRUE(fs::exists(path("started")));  // the trap works
}

TEST_F(Repository, IsTheOneOfTheFolderWhateverTheEnvironmentSays) {
  EXPECT_EQ(run("GIT_DIR=/nowhere")["commit"], run()["commit"]);
}

TEST_F(Repository, ThatGitCanNotReadIsToldInTheRun) {
  write(".git/HEAD", "nonsense");
  const auto said = run();
  EXPECT_FALSE(said.contains("commit"));
  EXPECT_EQ(said["git"], "git failed");
}

}  // namespace sluice::git_test
