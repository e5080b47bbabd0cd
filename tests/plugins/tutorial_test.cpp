// The parts that docs/parts.md and its two pages in docs/howto explain: they
// are what they say, and stand on the pages as they are compiled.
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"
#include "tests/plugins/plugin_program.h"

namespace sluice::tutorial_test {

using testing::HasSubstr;

class Tutorial : public PluginProgram {
 protected:
  Tutorial() { copy_of("tutorial", "libtutorial.so"); }

  std::string config_of(const std::string& lines) {
    return write(fmt::format("{}.toml", ++configs_),
                 "plugins = ['libtutorial.so']\nturns = 12\nbatch_size = 24\n"
                 "threads = 1\n"
                 "data = {name = 'drawn_digits', train = 240, test = 40}\n" +
                     lines);
  }
  NamedTensors weights(const std::string& lines,
                       const std::string& more = "engine=virtual") {
    const std::string config = config_of(lines);
    const std::string dir = fmt::format("run-{}", configs_);
    const Outcome run =
        sluice(fmt::format("run {} {} --dir {}", config, more, path(dir)));
    EXPECT_EQ(run.status, 0) << run.text;
    return weights_of(dir);
  }
  void expect_same_in_processes(const std::string& lines) {
    EXPECT_EQ(difference(weights(lines, "engine=processes"), weights(lines)),
              "");
  }
  int configs_ = 0;
};

/// Tensors of the model's layers, without heads and synthesizers.
NamedTensors of_layers(const NamedTensors& all) {
  NamedTensors layers;
  for (const auto& each : all)
    if (each.first.starts_with("layers.")) layers.push_back(each);
  return layers;
}

/// Means of the rows of matrices.
NamedTensors row_means(const NamedTensors& all) {
  NamedTensors means;
  for (const auto& [name, tensor] : all)
    if (tensor.dim() > 1) means.emplace_back(name, tensor.flatten(1).mean(1));
  return means;
}

/// The blocks of code in that language on the three pages, without the fences.
std::vector<std::string> code_of_pages(const std::string& language) {
  std::string page;
  for (const char* each :
       {"parts", "howto/parts-of-boundaries", "howto/parts-of-updates"})
    page += slurp(fmt::format("{}/{}.md", SLUICE_PARTS_PAGES, each));
  const std::string begin = "```" + language + "\n";
  std::vector<std::string> blocks;
  for (std::size_t at = page.find(begin); at != std::string::npos;
       at = page.find(begin, at)) {
    at += begin.size();
    blocks.push_back(page.substr(at, page.find("```", at) - at));
  }
  return blocks;
}

TEST_F(Tutorial, StandsOnThePagesAsItIsCompiled) {
  const std::string source = slurp(SLUICE_TEST_TUTORIAL_SOURCE);
  const std::vector<std::string> pieces = code_of_pages("cpp");
  ASSERT_GE(pieces.size(), 8U);
  for (const std::string& piece : pieces) EXPECT_THAT(source, HasSubstr(piece));
}

TEST_F(Tutorial, HasConfigsThatAreRead) {
  const std::vector<std::string> pieces = code_of_pages("toml");
  ASSERT_GE(pieces.size(), 8U);
  for (const std::string& piece : pieces) {
    const Outcome read = sluice("config " + config_of(piece));
    EXPECT_EQ(read.status, 0) << piece << read.text;
    EXPECT_THAT(piece, HasSubstr("tutorial_"));
  }
}

TEST_F(Tutorial, ModelIsCutAnywhereWithTheSameBits) {
  const std::string model =
      "model = {name = 'tutorial_residual', width = 8}\n"
      "optimizer = {lr = 0.1}\n";
  const NamedTensors whole = weights("blocks = 1\n" + model);
  const std::string cut = "boundary = {policy = 'backprop'}\n" + model;
  EXPECT_EQ(
      difference(weights("blocks = 4\n" + cut, "engine=processes"), whole), "");
  EXPECT_EQ(whole.size(), 2U * 5);  // weight and bias of each layer
  EXPECT_NE(difference(weights("seed = 2\nblocks = 1\n" + model), whole), "");
}

TEST_F(Tutorial, SteepSwishIsReLU) {
  const auto with = [&](const std::string& layer) {
    return weights(
        "model = {name = 'layers', layer = [{type = 'flatten'}, {type = "
        "'linear', outputs = 8}, " +
        layer + ", {type = 'linear'}]}\noptimizer = {lr = 0.1}\n");
  };
  const NamedTensors relu = with("{type = 'relu'}");
  EXPECT_LT(distance(with("{type = 'tutorial_swish', beta = 1e6}"), relu),
            1e-5);
  EXPECT_GT(distance(with("{type = 'tutorial_swish'}"), relu), 1e-3);
}

TEST_F(Tutorial, FocalLossWithoutAFocusIsCrossEntropy) {
  const auto with = [&](const std::string& loss) {
    return weights("model = {hidden = [8]}\noptimizer = {lr = 0.1}\nloss = {" +
                   loss + "}\n");
  };
  const NamedTensors plain = with("name = 'cross_entropy'");
  EXPECT_LT(distance(with("name = 'tutorial_focal', gamma = 0"), plain), 1e-5);
  EXPECT_GT(distance(with("name = 'tutorial_focal'"), plain), 1e-3);
}

TEST_F(Tutorial, HeavyBallIsSgdWithMomentumAndIsSaved) {
  const auto with = [](const std::string& optimizer) {
    return "model = {hidden = [8]}\noptimizer = {lr = 0.1, " + optimizer +
           "}\n";
  };
  const std::string ball = with("name = 'tutorial_ball', momentum = 0.5");
  const NamedTensors whole = weights(ball);
  EXPECT_LT(distance(whole, weights(with("name = 'sgd', momentum = 0.5"))),
            1e-5);
  EXPECT_GT(distance(whole, weights(with("name = 'tutorial_ball'"))), 1e-3);
  const Outcome half = sluice(
      fmt::format("run {} turns=7 --dir {}", config_of(ball), path("resumed")));
  ASSERT_EQ(half.status, 0) << half.text;
  const Outcome rest =
      sluice(fmt::format("run --resume {} turns=12", path("resumed")));
  ASSERT_EQ(rest.status, 0) << rest.text;
  EXPECT_EQ(difference(weights_of("resumed"), whole), "");
}

TEST_F(Tutorial, CentredGradientsLeaveTheMeansOfRows) {
  const auto with = [&](double rate, const std::string& more) {
    return weights(fmt::format(
        "model = {{hidden = [8]}}\noptimizer = {{lr = {}{}}}\n", rate, more));
  };
  const std::string centred = ", transform = [{name = 'tutorial_centred'}]";
  const NamedTensors slow = with(0.05, centred);
  const NamedTensors fast = with(0.2, centred);
  EXPECT_GT(distance(fast, slow), 1e-3);
  EXPECT_LT(distance(row_means(fast), row_means(slow)), 1e-5);
  EXPECT_GT(distance(row_means(with(0.2, "")), row_means(slow)), 1e-4);
}

TEST_F(Tutorial, SignsAreAPolicyOnEveryEngine) {
  const std::string lines = "model = {hidden = [8, 8]}\nblocks = 2\n";
  const std::string signs = lines + "boundary = {policy = 'tutorial_signs'}\n";
  expect_same_in_processes(signs);
  EXPECT_GT(distance(weights(signs), weights(lines + "boundary = {policy = "
                                                     "'delayed_gradient'}\n")),
            1e-4);
}

TEST_F(Tutorial, PredictorByLabelIsTheLinearOneOfSluice) {
  const auto with = [](const std::string& synthesizer) {
    return "model = {hidden = [8, 8]}\nblocks = 2\noptimizer = {lr = 0.1}\n"
           "boundary = {policy = 'synthetic_gradient', synthesizer = {" +
           synthesizer + "}}\n";
  };
  const std::string by_label = with("name = 'tutorial_by_label'");
  expect_same_in_processes(by_label);
  const NamedTensors own = of_layers(weights(by_label));
  const auto builtin = [&](const std::string& label) {
    return of_layers(
        weights(with("name = 'layers', hidden = 0, label = " + label)));
  };
  EXPECT_LT(distance(own, builtin("true")), 1e-5);
  EXPECT_GT(distance(own, builtin("false")), 1e-5);
}

TEST_F(Tutorial, PullOfTheWholeWayIsAnAverage) {
  const auto with = [](const std::string& policy) {
    return "model = {hidden = [8]}\noptimizer = {lr = 0.1}\n"
           "replicas = {count = 2, every = 3, policy = " +
           policy + "}\n";
  };
  const std::string whole = with("'tutorial_pull', part = 1");
  const NamedTensors average = weights(with("'average'"));
  EXPECT_EQ(difference(weights(whole), average), "");
  expect_same_in_processes(whole);
  EXPECT_GT(distance(weights(with("'tutorial_pull'")), average), 0);
}

}  // namespace sluice::tutorial_test
