// The commands `sluice data order` and `sluice data fetch`, and runs whose
// files are damaged.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "experiments/runs/seats/assembly.h"
#include "experiments/runs/seats/seat_sources.h"
#include "tests/experiments/data/data_file_server.h"
#include "tests/experiments/data/data_test_files.h"

namespace sluice::data_program_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct Outcome {
  int status = 0;
  std::string text;  ///< stdout and stderr
};

Outcome sluice(const std::string& arguments) {
  const std::string command =
      std::string(SLUICE_PROGRAM) + " " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer = {};
  for (std::size_t n = 0;
       (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

auto lines_in(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

class DataProgram : public DataFolder {
 protected:
  std::string write_text(const std::string& name,
                         const std::string& text) const {
    return write(name, Bytes(text.begin(), text.end()));
  }
};

constexpr const char* kConfig =
    "seed = 7\nturns = 9\nbatch_size = 40\nmodel = {hidden = [8]}\n"
    "data = {train = 100, test = 10}\n";

/// The lines that the order of an experiment should be, from its source.
std::string order_of(const std::string& config, std::int64_t turns) {
  const Experiment experiment =
      read_experiment(parse_toml(config, "test.toml"), "");
  SampleOrder order(100, {.batch_size = 40, .seed = 7});
  std::string text;
  for (std::int64_t t = 0; t < turns; ++t) {
    text += fmt::format("{} {}", t, t / 3);
    for (const std::int64_t index : order.batch(t))
      text += fmt::format(" {}", index);
    text += '\n';
  }
  return text;
}

TEST_F(DataProgram, OrderPrintsNumberEpochAndSamplesOfEveryBatch) {
  const Outcome outcome = sluice("data order " + write_text("a.toml", kConfig));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.text, order_of(kConfig, 9));
}

TEST_F(DataProgram, OrderStopsAfterSoManyTurns) {
  const Outcome outcome =
      sluice("data order " + write_text("a.toml", kConfig) + " --turns 2");
  EXPECT_EQ(outcome.text, order_of(kConfig, 2));
}

TEST_F(DataProgram, OrderTakesOverrides) {
  const std::string config = write_text("a.toml", kConfig);
  const Outcome outcome = sluice("data order " + config + " seed=8 --turns 9");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(lines_in(outcome.text), 9);
  EXPECT_NE(outcome.text, order_of(kConfig, 9));
}

/// The samples that a line of `data order` names.
std::vector<std::int64_t> samples_of(const std::string& line) {
  std::istringstream words(line);
  std::int64_t batch = 0;
  std::int64_t epoch = 0;
  words >> batch >> epoch;
  std::vector<std::int64_t> samples;
  for (std::int64_t sample = 0; words >> sample;) samples.push_back(sample);
  return samples;
}

TEST_F(DataProgram, OrderNamesTheSamplesThatTheWorkersGet) {
  const Experiment experiment =
      read_experiment(parse_toml(kConfig, "test.toml"), "");
  const auto samples = experiment.data->train.samples();
  const Outcome outcome = sluice("data order " + write_text("a.toml", kConfig));
  std::istringstream lines(outcome.text);
  const auto source = training_source(experiment);
  std::int64_t t = 0;
  for (std::string line; std::getline(lines, line); ++t) {
    const Batch named = samples->batch(samples_of(line), {});
    EXPECT_TRUE(named.inputs.equal(source->batch(t).inputs)) << line;
  }
  EXPECT_EQ(t, 9);
}

TEST_F(DataProgram, OrderOfATextPrintsTheStartsOfWindows) {
  std::string text;
  while (text.size() < 1000) text += "to be, or not to be; ";
  write_text("a.txt", text);
  const std::string config =
      write_text("a.toml",
                 "turns = 3\nbatch_size = 4\nmodel = {name = 'gpt'}\nblocks = "
                 "1\ndata = {name = 'text', file = 'a.txt', context = 50}\n");
  const Outcome outcome =
      sluice("data order " + config + " data.root=" + root());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const std::vector<std::int64_t> starts =
      samples_of(outcome.text.substr(0, outcome.text.find('\n')));
  ASSERT_EQ(starts.size(), 4U);
  for (const std::int64_t start : starts) EXPECT_EQ(start % 50, starts[0] % 50);
}

TEST_F(DataProgram, FetchRefusesWhatWasNotPublished) {
  write("served/input.txt", Bytes(1115394, 'x'));
  const FileServer server(path("served"), path("requests"));
  const Outcome outcome =
      sluice("data fetch tiny_shakespeare --root " + root() +
             "/new/root --from " + server.url("ranges"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("SHA-256"),
                                  HasSubstr("86c4e6aa9db7c042ec79f339dcb96d42b0"
                                            "075e16b8fc2e86bf0ca57e2dc565ed")));
  EXPECT_EQ(lines_in(outcome.text), 1) << outcome.text;
  EXPECT_TRUE(fs::is_empty(root() + "/new/root/tinyshakespeare"));
}

TEST_F(DataProgram, ARunOnDamagedFilesIsOneErrorLineAndWritesNothing) {
  for (const std::string split : {"train", "t10k"}) {
    Bytes images = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28};
    images.resize(images.size() + 2 * 784);
    write("mnist/" + split + "-images-idx3-ubyte", images);
    write("mnist/" + split + "-labels-idx1-ubyte",
          {0, 0, 8, 1, 0, 0, 0, 2, 1, 77});
  }
  const std::string config =
      write_text("a.toml", "engine = 'processes'\ndata = {name = 'mnist'}\n");
  const Outcome outcome = sluice("run " + config + " data.root=" + root() +
                                 " --dir " + root() + "/run");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(lines_in(outcome.text), 1) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("train-labels-idx1-ubyte"),
                                  HasSubstr("label 77")));
  EXPECT_FALSE(fs::exists(root() + "/run"));
}

}  // namespace sluice::data_program_test
