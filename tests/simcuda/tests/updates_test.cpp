// Updates on the simulated GPU: the bits of the CPU's, without a wait of the
// host, and in as many launches for many parameters as for few.
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/updates/clipping.h"
#include "lib/updates/update_chain.h"
#include "lib/workers/trained/vjp.h"
#include "tests/lib/updates/rules.h"
#include "tests/simcuda/tests/simulated_test.h"

namespace sluice::simcuda::updates_test {

class Updates : public SimulatedGpu {};

NamedTensors weights_on(const c10::Device& device, int count) {
  at::manual_seed(3);
  NamedTensors weights;
  for (int i = 0; i < count; ++i)
    weights.emplace_back("w" + std::to_string(i),
                         at::randn({5 + i % 7, 3}).to(device));
  return weights;
}

Tensors slopes_of(const NamedTensors& weights, int step) {
  at::manual_seed(100 + static_cast<std::uint64_t>(step));
  Tensors gradients;
  for (const auto& [name, weight] : weights)
    gradients.push_back(at::randn(weight.sizes()).to(weight.device()));
  return gradients;
}

UpdateOptions chain_of(const OptimizerKeys& keys) {
  return {.optimizer = options_of(keys)};
}

Tensors stepped_on(const c10::Device& device, const OptimizerKeys& keys) {
  const NamedTensors weights = weights_on(device, 9);
  UpdateChain chain(chain_of(keys), weights);
  for (int step = 0; step < 3; ++step) {
    Tensors gradients = slopes_of(weights, step);
    chain.apply(gradients, {.rate = 0.01});
  }
  Tensors all;
  for (const auto& [name, weight] : weights) all.push_back(weight.cpu());
  return all;
}

bool are_equal(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!a[i].equal(b.at(i))) return false;
  return true;
}

struct StepCost {
  std::int64_t launches = 0;
  std::int64_t waits = 0;
};

StepCost cost_of_step(const OptimizerKeys& keys, int parameters) {
  const NamedTensors weights = weights_on(kGpu, parameters);
  UpdateChain chain(chain_of(keys), weights);
  Tensors first = slopes_of(weights, 0);
  chain.apply(first, {.rate = 0.01});
  Tensors gradients = slopes_of(weights, 1);
  const std::int64_t launches = counts().launches;
  const std::int64_t waits = waits_of_this_thread();
  chain.apply(gradients, {.rate = 0.01});
  return {counts().launches - launches, waits_of_this_thread() - waits};
}

const std::vector<OptimizerKeys>& rules() {
  static const std::vector<OptimizerKeys> all = {
      {{"name", "sgd"}, {"momentum", 0.9}, {"clip.norm", 1.0}},
      {{"name", "adam"}},
      {{"name", "adamw"}, {"weight_decay", 0.1}, {"clip.norm", 0.5}},
      {{"name", "adagrad"}, {"weight_decay", 0.1}, {"lr_decay", 0.1}},
      {{"name", "nadam"}, {"weight_decay", 0.1}},
      {{"name", "nadamw"}, {"weight_decay", 0.1}},
      {{"name", "lion"}, {"weight_decay", 0.1}},
      {{"name", "rmsprop"}, {"momentum", 0.9}, {"centered", true}},
      {{"name", "rmsprop"}},
  };
  return all;
}

TEST_F(Updates, HaveTheBitsOfTheCpuButForTheFusedAdagrad) {
  for (const OptimizerKeys& keys : rules()) {
    if (options_of(keys).name == "adagrad") continue;
    EXPECT_TRUE(are_equal(stepped_on(kGpu, keys), stepped_on(at::kCPU, keys)))
        << options_of(keys).name;
  }
}

TEST_F(Updates, AdagradHasTheNumbersOfTheCpuInThreeLaunchesAtMost) {
  const OptimizerKeys keys = {
      {"name", "adagrad"}, {"weight_decay", 0.1}, {"lr_decay", 0.1}};
  const Tensors gpu = stepped_on(kGpu, keys);
  const Tensors cpu = stepped_on(at::kCPU, keys);
  for (std::size_t i = 0; i < cpu.size(); ++i)
    EXPECT_TRUE(at::allclose(gpu[i], cpu[i], 1e-6, 1e-6)) << i;
  EXPECT_LE(cost_of_step(keys, 60).launches, 3);
}

TEST_F(Updates, LaunchAsMuchForManyParametersAsForFewAndWaitForNothing) {
  for (const OptimizerKeys& keys : rules()) {
    const StepCost few = cost_of_step(keys, 2);
    const StepCost many = cost_of_step(keys, 60);
    EXPECT_GT(few.launches, 0) << options_of(keys).name;
    EXPECT_EQ(many.launches, few.launches) << options_of(keys).name;
    EXPECT_EQ(many.waits, 0) << options_of(keys).name;
  }
}

/// So many launches would be counted for a rule that goes through them.
TEST_F(Updates, OneByOneAreALaunchForEachParameter) {
  const NamedTensors weights = weights_on(kGpu, 60);
  const std::int64_t launches = counts().launches;
  for (const auto& [name, weight] : weights) weight.add_(1);
  EXPECT_EQ(counts().launches, launches + 60);
}

/// As of blocks with several versions of their weights.
TEST_F(Updates, BesideTheVersionBeforeAreAsFewLaunches) {
  const auto launches_for = [](int parameters) {
    const NamedTensors weights = weights_on(kGpu, parameters);
    UpdateChain chain(chain_of({{"name", "adam"}}), weights);
    Tensors storage;
    for (const auto& [name, weight] : weights)
      storage.push_back(at::empty_like(weight));
    Tensors gradients = slopes_of(weights, 0);
    const Tensors before = {weights[0].second.variable_data()};
    const std::int64_t launches = counts().launches;
    chain.apply(gradients, {.rate = 0.01}, storage);
    const std::int64_t taken = counts().launches - launches;
    EXPECT_TRUE(weights[0].second.data_ptr() == storage[0].data_ptr());
    EXPECT_FALSE(weights[0].second.cpu().equal(before[0].cpu()));
    return taken;
  };
  EXPECT_EQ(launches_for(60), launches_for(2));
}

/// As of several batches, or of replicas.
TEST_F(Updates, UpdatesOfAWindowAreSumsAndMeansInTwoLaunches) {
  const NamedTensors weights = weights_on(kGpu, 60);
  Tensors sums = slopes_of(weights, 0);
  const Tensors first = sums;
  const Tensors second = slopes_of(weights, 1);
  const std::int64_t launches = counts().launches;
  add_to(sums, second);
  EXPECT_EQ(counts().launches, launches + 1);
  for (std::size_t i = 0; i < sums.size(); ++i)
    EXPECT_TRUE(sums[i].cpu().equal(first[i].cpu() + second[i].cpu()));
  const auto cost = [&](bool mean) {
    UpdateOptions options = chain_of({{"name", "sgd"}});
    options.mean = mean;
    UpdateChain chain(options, weights);
    Tensors gradients = sums;
    const std::int64_t before = counts().launches;
    chain.apply(gradients, {.turns = 2, .rate = 0.01});
    EXPECT_EQ(gradients[0].cpu().equal(sums[0].cpu() / 2), mean);
    return counts().launches - before;
  };
  EXPECT_EQ(cost(true), cost(false) + 1);
}

TEST_F(Updates, ClipWhatIsLongAndLeaveWhatIsShort) {
  const OptimizerKeys plain = {{"name", "sgd"}};
  const auto clipped = [](double norm) {
    return OptimizerKeys{{"name", "sgd"}, {"clip.norm", norm}};
  };
  EXPECT_TRUE(
      are_equal(stepped_on(kGpu, clipped(1e6)), stepped_on(kGpu, plain)));
  EXPECT_FALSE(
      are_equal(stepped_on(kGpu, clipped(1)), stepped_on(kGpu, plain)));
}

/// As where the norm of a whole model comes down block by block.
TEST_F(Updates, AddToTheNormFromAbove) {
  const at::Tensor above = at::full({}, 16.0, at::kDouble).to(kGpu);
  const Tensors gradients = {at::full({1}, 3.0F).to(kGpu), at::Tensor()};
  EXPECT_EQ(squared_norm(gradients, above).item<double>(), 25);
  EXPECT_EQ(squared_norm({at::Tensor()}, above).item<double>(), 16);
}

}  // namespace sluice::simcuda::updates_test
