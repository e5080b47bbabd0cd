// The model `torchscript`: scripted modules, compiled here from source, against
// the same networks of ours. That Python's files are such modules, and that
// Python takes the weights back: python/tests/test_torchscript.py.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "experiments/config/reading/read_experiment.h"
#include "experiments/data/files/sha256.h"
#include "experiments/runs/processes/own_terms.h"
#include "experiments/runs/ranks/terms.h"
#include "lib/base/error.h"
#include "lib/checkpoints/safetensors.h"
#include "tests/experiments/helpers/program.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::torchscript_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using torch::jit::CompilationUnit;
using Script = torch::jit::Module;

constexpr const char* kNormalise =
    "    if self.training:\n"
    "        self.norm.num_batches_tracked.add_(1)\n"
    "    x = torch.batch_norm(x, self.norm.weight, self.norm.bias,\n"
    "                         self.norm.running_mean, self.norm.running_var,\n"
    "                         self.training, 0.1, 1e-05, True)\n"
    "    x = torch.relu_(x)\n";

constexpr const char* kForward = "def forward(self, x: Tensor) -> Tensor:\n";

std::string conv_entry() {
  return std::string(kForward) +
         "    x = torch.conv2d(x, self.conv.weight, self.conv.bias, [1, 1],\n"
         "                     [1, 1])\n" +
         kNormalise + "    return torch.max_pool2d(x, [2, 2], [2, 2])\n";
}

std::string hidden_entry(const std::string& dropped) {
  return std::string(kForward) +
         "    x = torch.flatten(x, 1)\n"
         "    x = torch.linear(x, self.linear.weight, self.linear.bias)\n" +
         kNormalise + "    return torch.dropout(x, " + dropped +
         ", self.training)\n";
}

std::string linear_entry() {
  return std::string(kForward) +
         "    return torch.linear(x, self.linear.weight, self.linear.bias)\n";
}

/// An empty module that can train.
Script script(const std::string& name,
              const std::shared_ptr<CompilationUnit>& unit) {
  Script module(c10::QualifiedName("__torch__." + name), unit,
                /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), true);
  return module;
}

/// Whether the tensor is a statistic of BatchNorm.
bool is_statistic(const std::string& name) {
  return name.find("running_") != name.npos ||
         name.find("num_batches") != name.npos;
}

/// The child `name` of an entry, with our tensors that begin with `prefix`.
Script child_with(const NamedTensors& weights, const std::string& prefix,
                  const std::string& name,
                  const std::shared_ptr<CompilationUnit>& unit) {
  Script child = script("Child", unit);
  for (const auto& [full, tensor] : weights) {
    const std::string before = prefix + name + ".";
    if (!full.starts_with(before)) continue;
    at::Tensor copy = tensor.detach().clone();
    if (!is_statistic(full)) copy.set_requires_grad(true);
    child.register_parameter(full.substr(before.size()), copy,
                             /*is_buffer=*/is_statistic(full));
  }
  return child;
}

/// The model small_conv = {channels = [4, 6], hidden = 12, batch_norm = true}
/// with its weights, as a scripted module whose children are its layers.
Script scripted(const NamedTensors& weights, const std::string& dropped) {
  const auto unit = std::make_shared<CompilationUnit>();
  const std::vector<std::string> sources = {
      conv_entry(), conv_entry(), hidden_entry(dropped), linear_entry()};
  Script top = script("Net", unit);
  std::string forward = kForward;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string number = std::to_string(i);
    const std::string prefix = "layers." + number + ".";
    Script entry = script("Entry", unit);
    for (const char* name : {"conv", "linear", "norm"}) {
      const bool has =
          std::any_of(weights.begin(), weights.end(), [&](const auto& named) {
            return named.first.starts_with(prefix + name + ".");
          });
      if (has)
        entry.register_module(name, child_with(weights, prefix, name, unit));
    }
    entry.define(sources[i]);
    top.register_module("e" + number, entry);
    forward += "    x = self.e" + number + ".forward(x)\n";
  }
  top.define(forward + "    return x\n");
  return top;
}

/// "layers.0.conv.weight" for "layers.0.e0.conv.weight".
NamedTensors renamed(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors)
    for (const std::string_view entry : {".e0", ".e1", ".e2", ".e3"})
      if (const auto at = name.find(entry); at != name.npos)
        name.erase(at, entry.size());
  return tensors;
}

constexpr const char* kOurs =
    "model = {name = 'small_conv', channels = [4, 6], hidden = 12, batch_norm "
    "= true, dropout = 0.25}\n";

struct Case {
  const char* name;
  const char* lines;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.name;
}

class Torchscript : public Program {
 protected:
  std::string theirs(const std::string& file) const {
    return "model = {name = 'torchscript', file = '" + path(file) + "'}\n";
  }
  /// Writes our initial weights of these lines as a scripted module.
  NamedTensors write_script(const std::string& file, const std::string& lines,
                            const std::string& dropped = "0.25") {
    const NamedTensors weights =
        copies_of(Training(small_experiment(kOurs + lines)).weights());
    scripted(weights, dropped).save(path(file));
    return weights;
  }
  NamedTensors trained(const std::string& model, const std::string& lines) {
    Training training(small_experiment(model + lines));
    training.train();
    return copies_of(training.weights());
  }
};

class TorchscriptEquals : public Torchscript,
                          public testing::WithParamInterface<Case> {};

TEST_P(TorchscriptEquals, OurNetworkOfTheSameLayers) {
  const std::string lines = "memory_format = 'contiguous'\nturns = 30\n" +
                            std::string(GetParam().lines);
  const NamedTensors before = write_script("net.pt", lines);
  write_script("other.pt", lines, "0.5");
  const NamedTensors ours = trained(kOurs, lines);
  const NamedTensors found = renamed(trained(theirs("net.pt"), lines));
  EXPECT_EQ(difference(found, ours), "");
  EXPECT_NE(difference(found, before), "");
  EXPECT_NE(difference(renamed(trained(theirs("other.pt"), lines)), ours), "");
}

INSTANTIATE_TEST_SUITE_P(
    Methods, TorchscriptEquals,
    testing::Values(
        Case{"one_block", "blocks = 1\n"},
        Case{"backprop",
             "blocks = ['0-1', '2-3']\nboundary = {policy = 'backprop'}\n"},
        Case{"local_loss",
             "blocks = ['0-1', '2-3']\nboundary = {policy = 'local_loss', head "
             "= {name = 'linear'}}\n"},
        Case{"delayed_gradient",
             "blocks = ['0-1', '2-3']\nboundary = {policy = "
             "'delayed_gradient', weights = 'stash'}\n"},
        Case{"recomputed",
             "blocks = ['0-1', '2-3']\nboundary = {policy = "
             "'delayed_gradient', weights = 'recompute'}\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(Torchscript, HasALayerForEachChildWithWeights) {
  write_script("net.pt", "blocks = 1\n");
  const Experiment experiment =
      small_experiment("blocks = 1\n" + theirs("net.pt"));
  const Experiment ours = small_experiment(std::string("blocks = 1\n") + kOurs);
  ASSERT_EQ(experiment.model.layers.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(experiment.model.layers[i].output, ours.model.layers[i].output);
  EXPECT_EQ(experiment.model.layers[0].name, "input");
  EXPECT_EQ(experiment.model.layers[2].name, "e2");
  EXPECT_GT(experiment.model.layers[1].flops, experiment.model.layers[3].flops);
}

TEST_F(Torchscript, IsCutWhereTheConfigSays) {
  write_script("net.pt", "blocks = 1\n");
  const Experiment experiment =
      small_experiment("blocks = 1\nmodel = {name = 'torchscript', file = '" +
                       path("net.pt") + "', cuts = ['e3', 'e2']}\n");
  ASSERT_EQ(experiment.model.layers.size(), 3U);
  EXPECT_EQ(experiment.model.layers[1].name, "e2");
  EXPECT_EQ(experiment.model.layers[2].name, "e3");
}

TEST_F(Torchscript, DrawsItsWeightsBySeedIfAskedTo) {
  const NamedTensors in_file = write_script("net.pt", "blocks = 1\n");
  const auto initial = [&](const std::string& more) {
    return renamed(copies_of(
        Training(small_experiment("blocks = 1\n" + more +
                                  "model = {name = 'torchscript', file = '" +
                                  path("net.pt") + "', weights = 'drawn'}\n"))
            .weights()));
  };
  const NamedTensors one = initial("seed = 1\n");
  EXPECT_EQ(difference(initial("seed = 1\n"), one), "");
  EXPECT_NE(difference(initial("seed = 2\n"), one), "");
  EXPECT_NE(difference(one, in_file), "");
}

/// The text of the UserError that it throws.
template <class Action>
std::string error_in(Action action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

/// Blocks of other ranks take their layers and first weights from files of that
/// name, too.
TEST_F(Torchscript, IsOfTheSameBytesAtAllRanks) {
  const auto terms = [&] {
    return terms_of(small_experiment("blocks = 1\n" + theirs("net.pt")), 0);
  };
  write_script("net.pt", "blocks = 1\n");
  const Terms rank_0 = terms();
  EXPECT_EQ(why_refused(rank_0, terms(), 1, false), "");
  write_script("net.pt", "blocks = 1\n", "0.5");
  EXPECT_THAT(why_refused(rank_0, terms(), 1, false),
              HasSubstr("the data file net.pt is "));
}

TEST_F(Torchscript, HasAHashThatTheResolvedConfigKeeps) {
  write_script("net.pt", "blocks = 1\n");
  const ConfigNode resolved =
      small_experiment("blocks = 1\n" + theirs("net.pt")).resolved;
  EXPECT_EQ(*resolved.find("model")->find("sha256"),
            (ConfigNode{.value = sha256_of_file(path("net.pt"))}));
  EXPECT_EQ(read_experiment(resolved, "").resolved, resolved);
  write_script("net.pt", "blocks = 1\n", "0.5");
  EXPECT_THAT(error_in([&] { read_experiment(resolved, ""); }),
              AllOf(HasSubstr(path("net.pt")), HasSubstr("was made with"),
                    HasSubstr("model.sha256=\"\""), Not(HasSubstr("\n"))));
  ConfigNode any = resolved;
  any.set_path("model.sha256", {.value = std::string()});
  EXPECT_FALSE(read_experiment(any, "").resolved == resolved);
}

TEST_F(Torchscript, ThatWasExportedAnewIsNoticedByResumesAndSweeps) {
  write_script("net.pt", "blocks = 1\n");
  const std::string config = write(
      "config.toml",
      config_with("blocks = 1\ncheckpoint = {every = 1}\n" + theirs("net.pt")));
  const auto run = [](const std::string& arguments, int status) {
    const Outcome outcome = sluice(arguments);
    EXPECT_EQ(outcome.status, status) << outcome.text;
    return outcome.text;
  };
  const std::string sweep =
      "sweep " + config + " optimizer.lr=0.1,0.05 --dir " + path("sweep");
  run("run " + config + " --dir " + path("run"), 0);
  run(sweep, 0);
  EXPECT_THAT(slurp(path("run/run.json")),
              HasSubstr(sha256_of_file(path("net.pt"))));
  run("run --resume " + path("run") + " turns=14", 0);
  write_script("net.pt", "blocks = 1\n", "0.5");
  EXPECT_THAT(run("run --resume " + path("run") + " turns=16", 2),
              HasSubstr("was made with"));
  run("run --resume " + path("run") + " turns=16 'model.sha256=\"\"'", 0);
  EXPECT_THAT(run(sweep, 2), HasSubstr("holds a run with another config"));
  run(sweep + " --again", 0);
}

TEST_F(Torchscript, IsHandedBackWithTheWeightsOfTheRun) {
  write_script("net.pt", "blocks = 1\n");
  const std::string config = config_with(
      "blocks = 2\nboundary = {policy = 'local_loss', head = {name "
      "= 'linear'}}\n" +
      theirs("net.pt"));
  const auto succeed = [](const std::string& arguments) {
    const Outcome outcome = sluice(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.text;
  };
  succeed("run " + write("config.toml", config) + " --dir " + path("run"));
  succeed("export " + path("run") + " --torchscript " + path("out.pt"));
  succeed("eval " + path("run") + " --samples 8 --logits " +
          path("logits.safetensors"));
  at::Tensor inputs;
  at::Tensor logits;
  for (const auto& [name, tensor] :
       read_safetensors(path("logits.safetensors"))) {
    if (name == "inputs") inputs = tensor;
    if (name == "logits") logits = tensor;
  }
  const auto logits_of = [&](const std::string& file) {
    const at::NoGradGuard no_grad;
    Script module = torch::jit::load(path(file));
    module.eval();
    return module.forward({inputs}).toTensor();
  };
  EXPECT_LT((logits_of("out.pt") - logits).abs().max().item<double>(), 1e-5);
  EXPECT_GT((logits_of("net.pt") - logits).abs().max().item<double>(), 1e-3);
}

TEST_F(Torchscript, HasMasksThatCannotBeWritten) {
  write_script("net.pt", "blocks = 1\n");
  const auto order_of = [&](const std::string& model, const std::string& with) {
    return sluice("data order " +
                  write("config.toml", config_with("blocks = 1\n" + model)) +
                  " --turns 1 --with " + with + " --out " +
                  path("keyed.safetensors"));
  };
  EXPECT_EQ(order_of(kOurs, "masks").status, 0);
  EXPECT_EQ(order_of(theirs("net.pt"), "labels").status, 0);
  const Outcome outcome = order_of(theirs("net.pt"), "masks");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("leave masks out"));
}

TEST_F(Torchscript, IsHandedBackOfSuchModelsOnly) {
  const Outcome run =
      sluice("run " + write("config.toml", config_with("blocks = 1\n")) +
             " --dir " + path("run"));
  ASSERT_EQ(run.status, 0) << run.text;
  const Outcome outcome =
      sluice("export " + path("run") + " --torchscript " + path("out.pt"));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.text, HasSubstr("came from no TorchScript file"));
}

/// A module of two linear layers, a: 784 -> 8 and b: 8 -> classes.
Script two_layers(const std::string& forward, const std::string& forward_of_b,
                  std::int64_t classes) {
  const auto unit = std::make_shared<CompilationUnit>();
  Script top = script("Top", unit);
  top.register_attribute("count", c10::IntType::get(), std::int64_t{0});
  top.register_attribute("seen", c10::TensorType::get(), at::zeros({1}));
  const auto linear = [&](std::int64_t inputs, std::int64_t outputs,
                          const std::string& source) {
    Script child = script("Linear", unit);
    child.register_parameter(
        "weight", at::ones({outputs, inputs}).set_requires_grad(true), false);
    child.register_parameter(
        "bias", at::zeros({outputs}).set_requires_grad(true), false);
    child.define(kForward + source);
    return child;
  };
  const std::string line =
      "    return torch.linear(x, self.weight, self.bias)\n";
  top.register_module("a",
                      linear(784, 8, "    x = torch.flatten(x, 1)\n" + line));
  top.register_module("b", linear(8, classes, forward_of_b + line));
  top.define(kForward + forward);
  return top;
}

struct RefusedScript {
  const char* name;
  const char* text;  ///< of the message
  const char* forward = "    return self.b.forward(self.a.forward(x))\n";
  const char* cuts = "[]";
  const char* forward_of_b = "";
  std::int64_t classes = 10;
};

void PrintTo(const RefusedScript& value, std::ostream* out) {
  *out << value.name;
}

class TorchscriptRefuses : public Program,
                           public testing::WithParamInterface<RefusedScript> {};

TEST_P(TorchscriptRefuses, InOneLine) {
  const RefusedScript& refused = GetParam();
  two_layers(refused.forward, refused.forward_of_b, refused.classes)
      .save(path("net.pt"));
  try {
    small_experiment("blocks = 1\nmodel = {name = 'torchscript', file = '" +
                     path("net.pt") + "', cuts = " + refused.cuts + "}\n");
    FAIL() << "no error";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr(refused.text));
    EXPECT_EQ(text.find('\n'), text.npos);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Files, TorchscriptRefuses,
    testing::Values(
        RefusedScript{"UnknownCut", "calls no module 'c'",
                      "    return self.b.forward(self.a.forward(x))\n",
                      "['c']"},
        RefusedScript{"CutTwice", "'b' is there twice",
                      "    return self.b.forward(self.a.forward(x))\n",
                      "['b', 'b']"},
        RefusedScript{"NothingBelow", "nothing lies below 'a'",
                      "    return self.b.forward(self.a.forward(x))\n",
                      "['a']"},
        RefusedScript{"TwoTensorsPass", "can't be cut below 'b'",
                      "    h = self.a.forward(x)\n"
                      "    y = torch.sum(x)\n"
                      "    return self.b.forward(h) + y\n",
                      "['b']"},
        RefusedScript{"UsedOnBothSides", "'a.bias'",
                      "    y = self.b.forward(self.a.forward(x))\n"
                      "    return y + self.a.bias.sum()\n",
                      "['b']"},
        RefusedScript{"DropoutOfATrace", "not torch.jit.trace",
                      "    x = self.b.forward(self.a.forward(x))\n"
                      "    return torch.dropout(x, 0.5, True)\n"},
        RefusedScript{"SetsAnAttribute", "sets the attribute 'count'",
                      "    self.count = self.count + 1\n"
                      "    return self.b.forward(self.a.forward(x))\n"},
        RefusedScript{"WritesWhatIsNoBuffer", "register_buffer()",
                      "    self.seen.add_(1)\n"
                      "    return self.b.forward(self.a.forward(x))\n"},
        RefusedScript{"OtherRandomness", "process-wide generator",
                      "    x = self.b.forward(self.a.forward(x))\n"
                      "    return x + torch.rand_like(x)\n"},
        RefusedScript{"FixedSamples", "'input' can't take [N, 1, 28, 28]",
                      "    x = torch.reshape(self.a.forward(x), [2, 8])\n"
                      "    return self.b.forward(x)\n"},
        RefusedScript{"FoldsSamples", "of 3 samples 'input' makes",
                      "    x = torch.reshape(self.a.forward(x), [-1, 4])\n"
                      "    return self.b.forward(x)\n",
                      "[]", "    x = torch.reshape(x, [-1, 8])\n"},
        RefusedScript{"WritesItsInput", "in place",
                      "    return self.b.forward(self.a.forward(x))\n", "['b']",
                      "    x = torch.relu_(x)\n"},
        RefusedScript{"OtherClasses", "the data want [N, 10]",
                      "    return self.b.forward(self.a.forward(x))\n", "[]",
                      "", 7}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(Torchscript, RefusesWhatIsNoScript) {
  const auto refusal_of = [&](const std::string& file) -> std::string {
    try {
      small_experiment("blocks = 1\n" + theirs(file));
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  write("text.pt", "PK, but no archive");
  EXPECT_THAT(refusal_of("text.pt"), HasSubstr("is no TorchScript file"));
  EXPECT_EQ(refusal_of("text.pt").find('\n'), std::string::npos);
  EXPECT_THAT(refusal_of("text.pt"), HasSubstr("zip archive"));
  EXPECT_THAT(refusal_of("text.pt"), Not(HasSubstr("checkpoint")));
  EXPECT_THAT(refusal_of("none.pt"), HasSubstr("none.pt"));
  write_script("net.pt", "blocks = 1\n");
  const std::string whole = slurp(path("net.pt"));
  write("half.pt", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refusal_of("half.pt"), HasSubstr("is no TorchScript file"));
}

}  // namespace sluice::torchscript_test
