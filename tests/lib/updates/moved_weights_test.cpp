// An update that writes the next version of weights beside the last one: the
// bits of the update in place, and the last version as it was.
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/random.h"
#include "lib/updates/update_chain.h"
#include "tests/lib/updates/rules.h"

namespace sluice::moved_weights_test {

/// Sizes around a vector's and a piece's, a layout of its own, and one that
/// gets no gradient.
NamedTensors some_weights() {
  at::manual_seed(7);
  return {
      {"w", at::randn({331, 200})},
      {"bias", at::randn({7})},
      {"maps",
       at::randn({48, 40, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"piece", at::randn({65536})},
      {"idle", at::randn({5, 3})},
      {"head", at::randn({100, 11})}};
}

/// All but the head's, as a block's own parameters are.
Tensors storage_for(const NamedTensors& weights) {
  Tensors storage;
  for (const auto& [name, weight] : weights)
    if (name != "head")
      storage.push_back(at::full_like(weight, 1e30));  // nothing that matters
  return storage;
}

Tensors copies_of_all(const NamedTensors& named) {
  Tensors copies;
  for (const auto& [name, tensor] : named) copies.push_back(tensor.clone());
  return copies;
}

struct Rule {
  const char* name;
  OptimizerKeys keys;
};

class MovedWeights : public testing::TestWithParam<Rule> {};

TEST_P(MovedWeights, HaveTheBitsOfAStepInPlace) {
  const NamedTensors in_place = some_weights();
  const NamedTensors moving = some_weights();
  const UpdateOptions options{.optimizer = options_of(GetParam().keys)};
  UpdateChain plain(options, in_place);
  UpdateChain versions(options, moving);
  for (int step = 0; step < 4; ++step) {
    Tensors before;
    for (const auto& [name, weight] : moving)
      before.push_back(weight.variable_data());
    const Tensors kept = copies_of_all(moving);
    Tensors gradients = gradients_for(in_place, step);
    Tensors same = gradients_for(moving, step);
    plain.apply(gradients, {.rate = 0.01});
    // Every other one in place: nothing was in flight.
    const bool moves = step % 2 == 0;
    versions.apply(same, {.rate = 0.01},
                   moves ? storage_for(moving) : Tensors());
    for (std::size_t i = 0; i < moving.size(); ++i) {
      EXPECT_TRUE(at::equal(moving[i].second, in_place[i].second))
          << moving[i].first << " after step " << step;
      const bool has_moved = moves && moving[i].first != "head";
      EXPECT_TRUE(!has_moved || at::equal(before[i], kept[i]))
          << moving[i].first;
      const bool is_idle = moving[i].first == "idle";
      EXPECT_EQ(at::equal(moving[i].second, kept[i]), is_idle)
          << moving[i].first;
    }
  }
}

OptimizerKeys named(const char* name) {
  return {{"name", std::string(name)}};
}

OptimizerKeys with(OptimizerKeys keys, OptimizerKeys more) {
  for (auto& key : more) keys.push_back(std::move(key));
  return keys;
}

INSTANTIATE_TEST_SUITE_P(
    Rules, MovedWeights,
    testing::Values(
        Rule{"Sgd", named("sgd")},
        Rule{"SgdWithMomentumAndDecay",
             with(named("sgd"), {{"momentum", 0.9}, {"weight_decay", 0.01}})},
        Rule{"Nesterov",
             with(named("sgd"), {{"momentum", 0.9}, {"nesterov", true}})},
        Rule{"Adam", with(named("adam"), {{"weight_decay", 0.01}})},
        Rule{"AdamW", with(named("adamw"), {{"weight_decay", 0.1}})},
        Rule{"NAdam", named("nadam")}, Rule{"Lion", named("lion")},
        Rule{"RmsProp", named("rmsprop")}, Rule{"Adagrad", named("adagrad")},
        Rule{"Muon", named("muon")},
        Rule{"Lars", with(named("lars"), {{"weight_decay", 0.01}})},
        Rule{"Lamb", with(named("lamb"), {{"weight_decay", 0.01}})}),
    [](const auto& rule) { return std::string(rule.param.name); });

}  // namespace sluice::moved_weights_test
