// Commands on a config whose scripted network writes files.
#include <filesystem>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>

#include "tests/experiments/helpers/refused_command.h"

namespace sluice::strange_script_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class StrangeScript : public RefusedCommand {
 protected:
  /// A config with a linear network that does this first in its forward.
  std::string config_of(const std::string& operation) const {
    torch::jit::Module net(c10::QualifiedName("__torch__.Net"),
                           std::make_shared<torch::jit::CompilationUnit>());
    net.register_attribute("training", c10::BoolType::get(), true);
    net.register_parameter("weight",
                           at::ones({10, 784}).set_requires_grad(true), false);
    net.register_parameter("bias", at::zeros({10}).set_requires_grad(true),
                           false);
    net.define(
        fmt::format("def forward(self, x: Tensor) -> Tensor:\n    {}\n"
                    "    return torch.linear(torch.flatten(x, 1), self.weight, "
                    "self.bias)\n",
                    operation));
    net.save(path("net.pt"));
    return write(
        "net.toml",
        config_with(fmt::format(
            "blocks = 1\nmodel = {{name = 'torchscript', file = '{}'}}\n",
            path("net.pt"))));
  }
};

TEST_F(StrangeScript, RunsInNoCommandUnlessItIsTrusted) {
  const std::string config =
      config_of(fmt::format("torch.save(x, '{}')", path("victim")));
  for (const char* command : {"config ", "plan ", "run "})
    expect_refusal(command + config, "calls aten::save");
  const Outcome trusted = sluice("config " + config + " model.trust=true");
  EXPECT_EQ(trusted.status, 0) << trusted.text;
  EXPECT_THAT(trusted.text, HasSubstr("trust = true"));
  EXPECT_TRUE(fs::exists(path("victim")));
}

TEST_F(StrangeScript, LeavesAFileThatItWouldMapAsItWas) {
  const std::string victim = write("victim", std::string(64, 'v'));
  const std::string config = config_of(fmt::format(
      "x = x + torch.from_file('{}', True, 8).add_(1).sum()", victim));
  for (const char* command : {"config ", "plan ", "run "})
    expect_refusal(command + config, "calls aten::from_file");
  EXPECT_EQ(slurp(victim), std::string(64, 'v'));
}

TEST_F(StrangeScript, IsLookedAtForPythonToo) {
  config_of(fmt::format("torch.save(x, '{}')", path("victim")));
  expect_refusal("check-script " + path("net.pt"), "calls aten::save");
  config_of("x = x + 1");
  EXPECT_EQ(sluice("check-script " + path("net.pt")).status, 0);
}

}  // namespace sluice::strange_script_test
