// Replicas that each step a share of every weight, and keep state of no more.
#include "lib/updates/sharded_optimizer.h"

#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/random.h"
#include "lib/updates/update_chain.h"
#include "tests/lib/updates/rules.h"

namespace sluice::sharded_optimizer_test {

/// Sizes around a line's, a layout of its own, and one without gradients.
NamedTensors some_weights() {
  at::manual_seed(7);
  return {{"w", at::randn({131, 20})},
          {"bias", at::randn({7})},
          {"maps",
           at::randn({8, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast)},
          {"line", at::randn({65})},
          {"idle", at::randn({50, 3})}};
}

struct Rule {
  const char* name;
  OptimizerKeys keys;
};

UpdateOptions options_of(const Rule& rule, const Share& share = {}) {
  return {.optimizer = sluice::options_of(rule.keys), .share = share};
}

class ShardedRules : public testing::TestWithParam<Rule> {};

/// In new storage every second step; parts of the gradients every third.
void step(UpdateChain& chain, const NamedTensors& weights, int step,
          const Share& share) {
  Tensors gradients = gradients_for(weights, step);
  if (step % 3 == 0 && !share.is_all()) gradients = parts_of(gradients, share);
  Tensors storage;
  if (step % 2 == 1)
    for (const auto& [name, weight] : weights)
      storage.push_back(at::full_like(weight, 1e30));
  chain.apply(gradients, {.rate = 0.01}, storage);
}

TEST_P(ShardedRules, TogetherHaveTheBitsOfTheWhole) {
  for (const std::int64_t members : {2, 3}) {
    const NamedTensors whole = some_weights();
    UpdateChain plain(options_of(GetParam()), whole);
    std::vector<NamedTensors> shared;
    std::vector<UpdateChain> chains;
    for (std::int64_t member = 1; member <= members; ++member) {
      shared.push_back(some_weights());
      chains.emplace_back(options_of(GetParam(), {member, members}),
                          shared.back());
    }
    for (int i = 0; i < 6; ++i) {
      step(plain, whole, i, {});
      for (std::int64_t member = 1; member <= members; ++member) {
        const Share share{member, members};
        const auto at = static_cast<std::size_t>(member) - 1;
        step(chains[at], shared[at], i, share);
        for (std::size_t w = 0; w < whole.size(); ++w) {
          EXPECT_TRUE(part_of(shared[at][w].second, share)
                          .equal(part_of(whole[w].second, share)))
              << whole[w].first << " of " << member << ", step " << i;
          // What the others would send.
          shared[at][w].second.copy_(whole[w].second);
        }
      }
    }
  }
}

std::int64_t elements_of(const NamedTensors& state) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : state)
    if (tensor.dim() > 0) count += tensor.numel();
  return count;
}

TEST_P(ShardedRules, KeepTheWholesStateOnce) {
  const auto kept = [](const Share& share) {
    return elements_of(
        UpdateChain(options_of(GetParam(), share), some_weights()).state());
  };
  const std::int64_t whole = kept({});
  EXPECT_EQ(kept({1, 3}) + kept({2, 3}) + kept({3, 3}), whole);
  EXPECT_LE(kept({2, 3}), whole * 2 / 5);
}

const Rule kRules[] = {
    {"adagrad", {{"name", "adagrad"}, {"weight_decay", 0.1}}},
    {"adam", {{"name", "adam"}, {"weight_decay", 0.1}}},
    {"adamw", {{"name", "adamw"}, {"weight_decay", 0.1}}},
    {"lion", {{"name", "lion"}, {"weight_decay", 0.1}}},
    {"nadamw", {{"name", "nadamw"}, {"weight_decay", 0.1}}},
    {"rmsprop", {{"name", "rmsprop"}}},
    {"sgd", {{"name", "sgd"}}},
    {"nesterov", {{"name", "sgd"}, {"momentum", 0.9}, {"nesterov", true}}},
};
INSTANTIATE_TEST_SUITE_P(Rules, ShardedRules, testing::ValuesIn(kRules),
                         [](const auto& info) { return info.param.name; });

TEST(ShardedOptimizer, ClipsByTheNormOfTheWhole) {
  const Rule clipped{"", {{"name", "sgd"}, {"clip.norm", 0.1}}};
  const NamedTensors whole = some_weights();
  const NamedTensors shared = some_weights();
  UpdateChain plain(options_of(clipped), whole);
  UpdateChain sharded(options_of(clipped, {1, 2}), shared);
  EXPECT_FALSE(sharded.takes_parts());
  Tensors gradients = gradients_for(whole, 0);
  plain.apply(gradients, {.rate = 1});
  gradients = gradients_for(whole, 0);
  sharded.apply(gradients, {.rate = 1});
  EXPECT_TRUE(part_of(shared[0].second, {1, 2})
                  .equal(part_of(whole[0].second, {1, 2})));
  EXPECT_FALSE(shared[0].second.equal(whole[0].second));
}

}  // namespace sluice::sharded_optimizer_test
