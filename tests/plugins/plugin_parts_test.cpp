// Rows of every table: they are named by configs, and are what they say.
#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"
#include "tests/plugins/plugin_program.h"

namespace sluice::plugin_parts_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A plug-in with built-in rows once more, under names that begin with parts_.
class PluginParts : public PluginProgram {
 protected:
  PluginParts() { parts_ = copy_of("parts", "libparts.so"); }

  /// Weights of a run with these lines, in which `prefix` takes the place of
  /// each @.
  NamedTensors weights(std::string lines, const std::string& prefix) {
    for (std::size_t at = lines.find('@'); at != std::string::npos;
         at = lines.find('@'))
      lines.replace(at, 1, prefix);
    const std::string dir = fmt::format("run-{}", ++runs_);
    const std::string config = write(
        dir + ".toml",
        fmt::format("plugins = ['{}']\nturns = 12\nbatch_size = 24\nthreads = "
                    "1\ndata = {{name = '{}drawn_digits', train = 240, test = "
                    "40}}\n{}",
                    parts_, prefix, lines));
    const Outcome run =
        sluice(fmt::format("run {} --dir {}", config, path(dir)));
    EXPECT_EQ(run.status, 0) << run.text;
    return weights_of(dir);
  }
  void expect_same_with_parts(const std::string& lines) {
    const NamedTensors built_in = weights(lines, "");
    ASSERT_FALSE(built_in.empty());
    EXPECT_EQ(difference(weights(lines, "parts_"), built_in), "");
  }

  std::string parts_;
  int runs_ = 0;
};

TEST_F(PluginParts, AreHeadsModelsLossesOptimizersPoliciesCodecsAndReplicas) {
  expect_same_with_parts(
      "model = {name = '@mlp', hidden = [8, 8]}\n"
      "loss = {name = '@cross_entropy'}\n"
      "optimizer = {name = '@sgd', lr = 0.1}\n"
      "replicas = {count = 2, policy = '@all_reduce'}\n"
      "boundary = {policy = '@local_loss', head = {name = '@linear'}, codec = "
      "'@fp16'}\n");
}

TEST_F(PluginParts, AreWeightViewsAndCorrections) {
  expect_same_with_parts(
      "model = {hidden = [8, 8]}\n"
      "optimizer = {lr = 0.1, correction = {name = '@dynsgd'}}\n"
      "boundary = {policy = '@delayed_gradient', weights = '@stash'}\n");
}

TEST_F(PluginParts, ArePredictorsAndOrders) {
  expect_same_with_parts(
      "model = {hidden = [8, 8]}\n"
      "boundary = {policy = 'synthetic_gradient', synthesizer = {name = "
      "'@layers', width = 8}}\n");
  expect_same_with_parts(
      "model = {hidden = [8, 8]}\n"
      "pipeline = {micro_batches = 2, order = '@gpipe'}\n");
}

TEST_F(PluginParts, AreLayersOfAList) {
  const auto with_scale = [](const std::string& scale) {
    return "model = {name = 'layers', layer = [{type = 'flatten'}, {type = "
           "'@linear', outputs = 8}, " +
           scale + "{type = 'relu'}, {type = '@linear'}]}\n";
  };
  expect_same_with_parts(with_scale(""));
  const NamedTensors without = weights(with_scale(""), "");
  EXPECT_EQ(
      difference(weights(with_scale("{type = 'parts_scale'}, "), ""), without),
      "");
  EXPECT_NE(
      difference(weights(with_scale("{type = 'parts_scale', by = 2}, "), ""),
                 without),
      "");
}

TEST_F(PluginParts, AreTransformsInTheirOrder) {
  const auto trained = [&](double rate, const std::string& transforms) {
    return weights(
        fmt::format("model = {{hidden = [8, 8]}}\noptimizer = {{lr = "
                    "{}, transform = [{}]}}\n",
                    rate, transforms),
        "");
  };
  const NamedTensors half = trained(0.25, "");
  const std::string halves = "{name = 'parts_factor', by = 0.5}";
  EXPECT_EQ(difference(trained(0.5, halves), half), "");
  EXPECT_EQ(difference(trained(1.0, halves + ", " + halves), half), "");
  EXPECT_NE(difference(trained(0.5, ""), half), "");
}

TEST_F(PluginParts, WithoutAPageHaveATimeline) {
  const Outcome page =
      sluice("list methods parts_delayed_gradient --plugin " + parts_);
  EXPECT_EQ(page.status, 0) << page.text;
  EXPECT_THAT(page.text,
              AllOf(HasSubstr("a turn later"), HasSubstr("In three blocks"),
                    Not(HasSubstr("source"))));
}

}  // namespace sluice::plugin_parts_test
