// Issue 18, item 13: folders that hold no run, or a damaged one.
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/refused_command.h"

namespace sluice::bad_environment_test {

namespace fs = std::filesystem;

const std::string kConfig =
    "turns = 2\nbatch_size = 20\nthreads = 1\nmodel = {hidden = [4]}\n"
    "data = {train = 40, test = 20}\n";

/// A folder that holds a run of two turns, done, and is then spoiled.
class BadRun : public RefusedCommand {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = fs::temp_directory_path() / "sluice-run-XXXXXX";
    original_ = ::mkdtemp(pattern.data());
    std::ofstream(original_ + "/c.toml") << kConfig;
    const Outcome run =
        sluice("run " + original_ + "/c.toml --dir " + original_ + "/run");
    ASSERT_EQ(run.status, 0) << run.text;
  }
  static void TearDownTestSuite() { fs::remove_all(original_); }

  BadRun() {
    fs::copy(original_ + "/run", path("run"), fs::copy_options::recursive);
  }

  void expect_resume_refused(const std::string& says) const {
    expect_refusal("run --resume ../run turns=4", says);
  }

  static std::string original_;
};

std::string BadRun::original_;

TEST_F(BadRun, ThatIsNoneIsNotResumed) {
  expect_refusal("run --resume ../nowhere", "isn't there");
  expect_refusal("run --resume .", "holds no run");
  expect_refusal("run --resume ../run/run.json", "holds no run");
  expect_refusal("run --resume ../run --overwrite", "neither --dir");
}

TEST_F(BadRun, WithAnOddRunJsonNamesFileAndKey) {
  const std::string file = "../run/run.json: ";
  const auto says = [&](const std::string& text, const std::string& what) {
    write("run/run.json", text);
    expect_resume_refused(file + what);
  };
  says("", "is empty");
  says("{\"started\": 1", "is damaged");
  says("[]", "holds array");
  says("5", "holds number");
  says(R"({"started": "yesterday"})", "'started' is string");
  says(R"({"started": 1e300})", "'started' is number");
  says(R"({"continued": 3})", "'continued' is number");
  says(R"({"continued": [3]})", "holds number");
  says(R"({"continued": [{"turn": "x"}]})", "'turn' is string");
  says(R"({"devices": [1]})", "'devices' is array");
  says(R"({"build": {}})", "'build' is object");
  says(std::string(1'000'000, '['), "is nested more than");
  fs::remove(path("run/run.json"));
  expect_resume_refused("run.json': No such file");
  fs::create_directory(path("run/run.json"));
  expect_resume_refused("it is a directory");
  fs::remove(path("run/run.json"));
  ASSERT_EQ(shell("mkfifo " + path("run/run.json")).status, 0);
  expect_resume_refused("it is a fifo");
}

TEST_F(BadRun, WithAnOddRunJsonIsNotExported) {
  write("run/run.json", R"({"continued": {"turn": 1}})");
  expect_refusal("export ../run --out model.safetensors",
                 "'continued' is object");
}

TEST_F(BadRun, WithADamagedCheckpointIsNotResumed) {
  const std::string file = "run/checkpoints/turn-000002/block-1.safetensors";
  fs::resize_file(path(file), fs::file_size(path(file)) - 4);
  expect_resume_refused("block-1.safetensors");
  fs::resize_file(path(file), 3);
  expect_resume_refused("block-1.safetensors");
  fs::remove_all(path("run/checkpoints"));
  expect_resume_refused("has no checkpoint");
}

TEST_F(BadRun, WithDamagedFilesIsNotShown) {
  write("run/status.json", "{");
  expect_refusal("watch ../run --once", "status.json");
  write("run/status.json", R"({"blocks": 5})");
  expect_refusal("watch ../run --once", "status.json");
  write("run/metrics.jsonl", "{}\nnonsense\n{}\n");
  expect_refusal("report ../run", "metrics.jsonl:2: is damaged");
}

// What --overwrite would remove stays when the run can't be.
TEST_F(BadRun, IsNotOverwrittenByOneThatCanNotBegin) {
  write("c.toml", kConfig);
  expect_refusal("run ../c.toml engine=processes --dir ../run --overwrite",
                 "set TMPDIR", "env TMPDIR=/nowhere");
  expect_refusal("run ../c.toml --dir ../run", "holds a run already");
}

}  // namespace sluice::bad_environment_test
