// `sluice sample`: texts drawn from the checkpoint of a language model.
#include "experiments/runs/uses/text_sampling.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/helpers/program.h"

namespace sluice::text_sampling_test {

using testing::HasSubstr;

constexpr std::array<double, 4> kLogits = {0.5, 2, -1, 1};

/// How often each token comes, of so many draws.
std::vector<double> shares(double temperature, std::int64_t top_k) {
  constexpr int kDraws = 40000;
  KeyedRandom random(7);
  std::vector<double> shares(kLogits.size());
  for (int i = 0; i < kDraws; ++i)
    shares.at(static_cast<std::size_t>(
        draw_token(kLogits, temperature, top_k, random))) += 1. / kDraws;
  return shares;
}

TEST(DrawToken, HasTheSharesOfTheSoftmax) {
  for (const double temperature : {1., 0.5, 3.}) {
    double sum = 0;
    for (const double logit : kLogits) sum += std::exp(logit / temperature);
    const std::vector<double> found = shares(temperature, 0);
    for (std::size_t i = 0; i < kLogits.size(); ++i)
      EXPECT_NEAR(found[i], std::exp(kLogits.at(i) / temperature) / sum, 0.015)
          << "token " << i << " at temperature " << temperature;
  }
}

TEST(DrawToken, DrawAmongTheTwoMostProbableLeavesOthersOut) {
  const std::vector<double> found = shares(1, 2);
  EXPECT_EQ(found[0], 0);
  EXPECT_EQ(found[2], 0);
  EXPECT_NEAR(found[1], std::exp(2) / (std::exp(2) + std::exp(1)), 0.015);
  EXPECT_GT(shares(1, 3)[0], 0.05);
}

TEST(DrawToken, AtTemperatureZeroIsTheMostProbable) {
  EXPECT_EQ(shares(0, 0)[1], shares(1, 1)[1]);
  EXPECT_NEAR(shares(0, 0)[1], 1, 1e-6);
  EXPECT_LT(shares(1, 0)[1], 0.9);
}

class Sample : public Program {
 protected:
  /// Trains a little on a text of the letters a to h and spaces.
  void train(const std::string& model) const {
    std::string text;
    std::uint32_t state = 1;
    for (int i = 0; i < 4000; ++i) {
      state = state * 1664525 + 1013904223;
      text += i % 5 == 4 ? ' ' : static_cast<char>('a' + (state >> 29));
    }
    const std::string config = fmt::format(
        "turns = 20\nbatch_size = 8\nthreads = 1\nblocks = 2\n"
        "engine = 'virtual'\nmodel = {}\ndata = {{name = 'text', file = '{}', "
        "context = 8}}\n",
        model, write("text.txt", text));
    const Outcome outcome =
        sluice("run " + write("config.toml", config) + " --dir " + path("run"));
    ASSERT_EQ(outcome.status, 0) << outcome.text;
  }
  std::string sampled(const std::string& options) const {
    const Outcome outcome = sluice("sample " + path("run") + " " + options);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return outcome.text;
  }
  /// The first window of the test split, and what most probably follows it.
  std::string window_and_next() const {
    const Outcome outcome = sluice("eval " + path("run") + " --samples 1" +
                                   " --logits " + path("logits.safetensors"));
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    std::map<std::string, at::Tensor> found;
    for (auto& [name, tensor] : read_safetensors(path("logits.safetensors")))
      found[name] = tensor;
    const std::string letters = " abcdefgh";  // as bytes are sorted
    std::string text;
    const at::Tensor inputs = found.at("inputs");
    for (std::int64_t i = 0; i < inputs.size(1); ++i)
      text += letters.at(
          static_cast<std::size_t>(inputs.select(1, i).item<std::int64_t>()));
    const auto next =
        found.at("logits").select(1, -1).argmax().item<std::int64_t>();
    return text + letters.at(static_cast<std::size_t>(next));
  }
};

TEST_F(Sample, TakesTheMostProbableByteAfterWhatTheModelSees) {
  for (const char* model : {"{name = 'gpt', layers = 2, width = 16, heads = 2}",
                            "{name = 'lstm', layers = 1, width = 16}"}) {
    std::filesystem::remove_all(path("run"));
    train(model);
    const std::string expected = window_and_next();
    const std::string window = expected.substr(0, expected.size() - 1);
    EXPECT_EQ(sampled(fmt::format("--prompt '{}' --length 1 --temperature 0",
                                  window)),
              expected + "\n");
    // What lies before the window isn't seen.
    EXPECT_EQ(sampled(fmt::format("--prompt 'hhh{}' --length 1 --temperature 0",
                                  window)),
              "hhh" + expected + "\n");
  }
}

TEST_F(Sample, IsTheSameForASeedAndAnotherForAnother) {
  train("{name = 'gpt', layers = 2, width = 16, heads = 2}");
  const std::string text = sampled("--prompt ab --length 30 --seed 1");
  EXPECT_EQ(text.size(), 2 + 30 + 1U);
  EXPECT_EQ(text.substr(0, 2), "ab");
  EXPECT_EQ(sampled("--prompt ab --length 30 --seed 1"), text);
  EXPECT_NE(sampled("--prompt ab --length 30 --seed 2"), text);
  EXPECT_EQ(sampled("--length 3").size(), 3 + 1U);
}

TEST_F(Sample, RefusesAByteThatTheDataDontHaveAndModelsOfImages) {
  train("{name = 'lstm', layers = 1, width = 16}");
  const Outcome outcome = sluice("sample " + path("run") + " --prompt xyz");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("no byte 0x78 ('x')"));
  const Outcome images =
      sluice("run " + write("images.toml", config_with("blocks = 1\n")) +
             " --dir " + path("images"));
  ASSERT_EQ(images.status, 0) << images.text;
  const Outcome none = sluice("sample " + path("images"));
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.text, HasSubstr("none of texts"));
}

}  // namespace sluice::text_sampling_test
