#include "lib/tensors/split_backward.h"

#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/tensors/gradients.h"

namespace sluice::split_backward_test {

/// A graph and its leaves.
struct Net {
  Tensors outputs = {};
  Tensors inputs = {};
  Tensors parameters = {};
};

at::Tensor leaf(at::IntArrayRef sizes) {
  return at::randn(sizes).set_requires_grad(true);
}

/// Two linear layers with a way around the second.
Net residual() {
  at::manual_seed(1);
  Net net{.inputs = {leaf({5, 7})},
          .parameters = {leaf({8, 7}), leaf({8}), leaf({8, 8}), leaf({8})}};
  const auto& p = net.parameters;
  const at::Tensor h = at::relu(at::linear(net.inputs[0], p[0], p[1]));
  net.outputs = {h + at::gelu(at::linear(h, p[2], p[3]))};
  return net;
}

Net convolutional() {
  at::manual_seed(2);
  Net net{.inputs = {leaf({3, 4, 8, 8})},
          .parameters = {leaf({6, 4, 3, 3}), leaf({6}), leaf({6}), leaf({6}),
                         leaf({5, 6, 3, 3})}};
  const auto& p = net.parameters;
  at::Tensor h = at::conv2d(net.inputs[0], p[0], p[1]);
  h = at::relu(at::batch_norm(h, p[2], p[3], {}, {}, true, 0.1, 1e-5, false));
  net.outputs = {at::conv2d(h, p[4])};
  return net;
}

/// Net of two outputs and two inputs, one of which is unused.
Net several() {
  at::manual_seed(3);
  Net net{.inputs = {leaf({4, 6}), leaf({4, 6})},
          .parameters = {leaf({6, 6}), leaf({6, 6}), leaf({2})}};
  const at::Tensor h = at::linear(net.inputs[0], net.parameters[0]);
  net.outputs = {at::tanh(h), at::linear(h, net.parameters[1])};
  return net;
}

/// A parameter of two operations: the second half can't tell them apart.
Net tied() {
  at::manual_seed(4);
  Net net{.inputs = {leaf({4, 6})}, .parameters = {leaf({6, 6}), leaf({6})}};
  const at::Tensor h = at::linear(net.inputs[0], net.parameters[0]);
  net.outputs = {at::linear(at::tanh(h), net.parameters[0]) +
                 net.parameters[1]};
  return net;
}

/// An output that no input leads to.
Net apart() {
  at::manual_seed(5);
  Net net{.inputs = {leaf({4, 6})}, .parameters = {leaf({6, 6}), leaf({6})}};
  net.outputs = {at::linear(net.inputs[0], net.parameters[0]),
                 net.parameters[1] * 2};
  return net;
}

/// A hook on what comes out of an operation with a parameter.
Net hooked() {
  at::manual_seed(7);
  Net net{.inputs = {leaf({4, 6})}, .parameters = {leaf({6, 6}), leaf({6, 6})}};
  const at::Tensor h = at::linear(net.inputs[0], net.parameters[0]);
  h.register_hook([](const at::Tensor& gradient) { return gradient * 0.5; });
  net.outputs = {at::linear(h, net.parameters[1])};
  return net;
}

Tensors signal_for(const Net& net) {
  at::manual_seed(9);
  Tensors signal;
  for (const at::Tensor& output : net.outputs)
    signal.push_back(at::randn_like(output.detach()));
  return signal;
}

void expect_same(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    if (!found[i].defined()) continue;
    EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
  }
}

struct Case {
  const char* name;
  Net (*make)();
};

class SplitBackwardOf : public testing::TestWithParam<Case> {};

TEST_P(SplitBackwardOf, HasTheBitsOfAWholeOne) {
  const Net net = GetParam().make();
  const Tensors signal = signal_for(net);
  Tensors targets = net.parameters;
  targets.insert(targets.end(), net.inputs.begin(), net.inputs.end());
  const Tensors whole = gradients_at(targets, net.outputs, signal, true);
  const auto border = whole.begin() + std::ssize(net.parameters);
  SplitBackward halves(net.outputs, net.inputs, net.parameters);
  expect_same(halves.at_inputs(signal), {border, whole.end()});
  expect_same(halves.at_parameters(true), {whole.begin(), border});
}

TEST_P(SplitBackwardOf, KeepsTheGradientsOfEachSignalApart) {
  const Net net = GetParam().make();
  const Tensors signal = signal_for(net);
  Tensors twice;
  for (const at::Tensor& one : signal) twice.push_back(one * 2);
  SplitBackward first(net.outputs, net.inputs, net.parameters);
  SplitBackward second(net.outputs, net.inputs, net.parameters);
  first.at_inputs(signal);
  second.at_inputs(twice);
  expect_same(first.at_parameters(true),
              gradients_at(net.parameters, net.outputs, signal, true));
  expect_same(second.at_parameters(true),
              gradients_at(net.parameters, net.outputs, twice, true));
}

INSTANTIATE_TEST_SUITE_P(
    Nets, SplitBackwardOf,
    testing::Values(Case{"Residual", residual},
                    Case{"Convolutional", convolutional},
                    Case{"Several", several}, Case{"Tied", tied},
                    Case{"Apart", apart}, Case{"Hooked", hooked}),
    [](const auto& net) { return std::string(net.param.name); });

/// Counts how often a function's gradient at its input is computed.
struct CountedFunction : torch::autograd::Function<CountedFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& input, std::int64_t count) {
    context->saved_data["count"] = count;
    return input.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    ++*reinterpret_cast<int*>(context->saved_data["count"].toInt());
    return {gradients[0], at::Tensor()};
  }
};

TEST(SplitBackward, SecondHalfDoesNothingOfTheFirstAgain) {
  at::manual_seed(6);
  int count = 0;
  const Tensors parameters = {leaf({6, 6}), leaf({6, 6})};
  const Tensors inputs = {leaf({4, 6})};
  const at::Tensor below = at::linear(inputs[0], parameters[0]);
  const at::Tensor way =
      CountedFunction::apply(below, reinterpret_cast<std::int64_t>(&count));
  const Tensors outputs = {at::linear(way, parameters[1])};
  SplitBackward halves(outputs, inputs, parameters);
  halves.at_inputs({at::ones({4, 6})});
  EXPECT_EQ(count, 1);
  const Tensors gradients = halves.at_parameters(false);
  EXPECT_EQ(count, 1);
  EXPECT_TRUE(gradients[0].defined() && gradients[1].defined());
}

}  // namespace sluice::split_backward_test
