// `sluice export` and `sluice eval --logits`: what others load. That PyTorch
// computes the same with it: scripts/check-interop.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::export_test {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kConfig =
    "blocks = 3\nevaluate_every = 0.5\n"
    "model = {hidden = [48, 40], batch_norm = true}\n"
    "boundary = {policy = 'local_loss', head = {name = 'predsim'}}\n"
    "checkpoint = {every_turns = 5, best = 'accuracy'}\n";

/// The metadata of a safetensors file.
json notes_in(const std::string& file) {
  const std::string bytes = slurp(file);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return json::parse(bytes.substr(sizeof length, length)).at("__metadata__");
}

class Export : public Program {
 protected:
  Export() {
    const Outcome outcome =
        sluice("run " + write("config.toml", config_with(kConfig)) + " --dir " +
               path("run"));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  }
  /// Tensors of an export with `more` on the command line.
  NamedTensors exported(const std::string& more) {
    const Outcome outcome = sluice("export " + path("run") + " --out " +
                                   path("out.safetensors") + " " + more);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return read_safetensors(path("out.safetensors"));
  }
  /// The model's own tensors of a checkpoint.
  NamedTensors weights_of(const std::string& checkpoint) {
    NamedTensors own;
    for (auto& named : load_weights(path("run/checkpoints/" + checkpoint)))
      if (named.first.starts_with("layers.")) own.push_back(std::move(named));
    return own;
  }
  void expect_refused(const std::string& arguments, const std::string& text) {
    const Outcome outcome = sluice("export " + arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(text)) << arguments;
    EXPECT_EQ(std::count(outcome.text.begin(), outcome.text.end(), '\n'), 1);
  }
};

TEST_F(Export, HasTheModelsTensorsOfAllBlocksAndNoHeads) {
  EXPECT_EQ(
      difference(exported("--checkpoint last"), weights_of("turn-000012")), "");
  EXPECT_EQ(difference(exported("--checkpoint 5"), weights_of("turn-000005")),
            "");
  EXPECT_NE(difference(exported("--checkpoint 5"), weights_of("turn-000012")),
            "");
}

TEST_F(Export, TakesTheBestCheckpointUnlessToldOtherwise) {
  EXPECT_EQ(difference(exported(""), weights_of("best")), "");
  EXPECT_EQ(difference(exported("--checkpoint best"), weights_of("best")), "");
}

TEST_F(Export, SaysInItsMetadataWhatTheModelIsAndWhoTrainedIt) {
  exported("--checkpoint turn-000010");
  const json notes = notes_in(path("out.safetensors"));
  EXPECT_EQ(notes.at("format"), "pt");
  EXPECT_EQ(notes.at("turn"), "10");
  const json model = json::parse(notes.at("model").get<std::string>());
  EXPECT_EQ(model.at("name"), "mlp");
  EXPECT_EQ(model.at("hidden"), json({48, 40}));
  const json sample = json::parse(notes.at("sample").get<std::string>());
  EXPECT_EQ(sample.at("shape"), json({1, 28, 28}));
  EXPECT_EQ(json::parse(notes.at("layers").get<std::string>()).size(), 3U);
  const json run = json::parse(slurp(path("run/run.json")));
  EXPECT_EQ(notes.at("build"), run.at("build"));
  EXPECT_EQ(notes.at("config"), slurp(path("run/config.toml")));
}

TEST_F(Export, CanBeEvaluatedAndStartedFrom) {
  const Outcome whole = sluice("export " + path("run"));
  EXPECT_EQ(whole.status, 0) << whole.text;
  const std::string file = path("run/model.safetensors");
  const auto figures = [](const Outcome& eval) {
    return eval.text.substr(eval.text.find(": test loss"));
  };
  EXPECT_EQ(figures(sluice("eval " + file)),
            figures(sluice("eval " + path("run"))));
  const Outcome started = sluice("run " + path("config.toml") +
                                 " blocks=2 turns=1 initial_weights=" + file +
                                 " --dir " + path("other"));
  EXPECT_EQ(started.status, 0) << started.text;
}

TEST_F(Export, RefusesWhatIsNoRunOrCheckpointOrFile) {
  expect_refused(path("none"), "isn't there");
  expect_refused(path("run") + " --checkpoint bets", "did you mean 'best'");
  expect_refused(path("run") + " --checkpoint 7", "turn-000005");
  expect_refused(path("run") + " --out model.bin", ".safetensors");
  fs::remove_all(path("run/checkpoints"));
  expect_refused(path("run"), "has no checkpoint yet");
}

TEST_F(Export, RefusesADamagedCheckpointNamingItsFile) {
  const std::string block =
      path("run/checkpoints/turn-000012/block-2.safetensors");
  fs::resize_file(block, fs::file_size(block) - 8);
  expect_refused(path("run") + " --checkpoint last", "block-2.safetensors");
  fs::remove(block);
  expect_refused(path("run") + " --checkpoint last",
                 "has no tensor 'layers.1.linear.weight'");
  EXPECT_FALSE(fs::exists(path("run/model.safetensors")));
}

TEST_F(Export, LeavesTheOldFileWhenTheDiskIsFull) {
  if (!kFilesCanBeLimited)
    GTEST_SKIP() << "the thread sanitizer needs files of more than the limit";
  exported("--checkpoint 5");
  const std::string before = slurp(path("out.safetensors"));
  // The limit counts as the disk's end, of which the signal says nothing.
  const Outcome outcome =
      shell("trap '' XFSZ; ulimit -f 8; " + std::string(SLUICE_PROGRAM) +
            " export " + path("run") + " --out " + path("out.safetensors"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("out.safetensors: can't be written"));
  EXPECT_EQ(slurp(path("out.safetensors")), before);
  EXPECT_FALSE(fs::exists(path("out.safetensors.partial")));
}

TEST_F(Export, ExportOfARunThatIsOverwrittenGoesWithIt) {
  EXPECT_EQ(sluice("export " + path("run")).status, 0);
  const Outcome again = sluice("run " + path("config.toml") +
                               " turns=1 --overwrite --dir " + path("run"));
  EXPECT_EQ(again.status, 0) << again.text;
  EXPECT_FALSE(fs::exists(path("run/model.safetensors")));
}

TEST_F(Export, LogitsAreThoseOfTheEvaluationsFirstSamples) {
  const std::string eval =
      "eval " + path("run") + " --logits " + path("logits.safetensors");
  const Outcome outcome = sluice(eval + " --samples 1000");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  std::map<std::string, at::Tensor> found;
  for (auto& [name, tensor] : read_safetensors(path("logits.safetensors")))
    found[name] = tensor;
  ASSERT_EQ(found.at("inputs").sizes(), at::IntArrayRef({40, 1, 28, 28}));
  ASSERT_EQ(found.at("logits").sizes(), at::IntArrayRef({40, 10}));
  const auto right =
      found.at("logits").argmax(1).eq(found.at("labels")).sum().item<double>();
  EXPECT_THAT(outcome.text, HasSubstr(fmt::format("accuracy {:.2f} % of 40",
                                                  100 * right / 40)));
}

}  // namespace sluice::export_test
