// What each kind of exchange gives to the replicas of a block, which publish
// one after the other, and then settle.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/replicas/centre/centre_host.h"
#include "lib/replicas/groups/memory.h"
#include "lib/replicas/taken_weights.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/parts.h"
#include "lib/workers/exchanges/exchange.h"

namespace sluice::exchanges_test {

constexpr int kMembers = 3;
constexpr std::int64_t kElements = 384;  // enough for parts

/// One weight, and a statistic.
class OneWeight final : public Layer {
 public:
  OneWeight() {
    weight = register_parameter("weight", at::arange(kElements, at::kFloat));
    mean = register_buffer("mean", at::zeros({1}));
  }
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs.at(0) * weight};
  }

  at::Tensor weight;
  at::Tensor mean;
};

using Options = std::vector<std::pair<const char*, std::variant<bool, double>>>;

ReplicaKind kind_of(const std::string& policy, const Options& options) {
  ConfigNode config{.value = ConfigNode::Table{}};
  for (const auto& [key, value] : options)
    std::visit([&, name = key](auto of) { config.set(name, {.value = of}); },
               value);
  Fields fields(&config, "replicas");
  return find_row(replica_policies(), policy, "replica policy").make(fields);
}

/// One of the replicas, with all that its exchanges are made from.
struct Replica {
  Replica(const ReplicaKind& replica_kind, Group* the_group,
          CentreWays* the_centres)
      : kind(replica_kind), group(the_group), centres(the_centres) {
    if (group != nullptr && kind.make)
      rules = kind.make(trained.all(), {.member = group->member(),
                                        .members = group->members(),
                                        .group = group});
    if (rules.policy) rules.policy->begin(values_of(trained.all()));
    plan.exchange = kind.exchange;
    plan.exchange.members = kMembers;
    plan.exchange.served = centres != nullptr;
    plan.replica = group != nullptr ? group->member() : centres->member();
  }

  std::unique_ptr<Exchange> make(ExchangeKind of) {
    return make_exchange(of, {.block = block,
                              .trained = trained,
                              .kind = kind,
                              .rules = rules,
                              .group = group,
                              .centres = centres});
  }
  Exchange& exchange(ExchangeKind of) {
    auto& made = exchanges[of];
    if (!made) made = make(of);
    return *made;
  }
  ExchangeContext context(const Action& action) {
    return {.plan = plan,
            .action = action,
            .gradients = gradients,
            .learners = &learners,
            .last_rate = 0.1};
  }
  at::Tensor weight() const { return trained.tensors().at(0).second.detach(); }
  void set_weight(double to) {
    const at::NoGradGuard no_grad;
    weight().fill_(to);
  }

  const ReplicaKind kind;
  Block block{1, 0, [] { return Layers{std::make_shared<OneWeight>()}; },
              MemoryFormat::contiguous};
  TrainedTensors trained{block, {}, {}, {}};
  Learners learners{.tensors = {{"l", at::zeros({kElements})}},
                    .update = nullptr};
  Tensors gradients;
  ReplicaRules rules;
  BlockPlan plan;
  Group* group;
  CentreWays* centres;
  std::map<ExchangeKind, std::unique_ptr<Exchange>> exchanges;
};

class Replicas {
 public:
  /// Replicas of a group, or those of a centre.
  Replicas(const std::string& policy, const Options& options,
           bool are_served = false,
           const std::function<void(ReplicaKind&)>& change = {}) {
    ReplicaKind kind = kind_of(policy, options);
    if (change) change(kind);
    if (are_served) {
      auto links = links_to_centre(
          {.members = kMembers,
           .name = "block 1",
           .quorum = quorum_of(kind, kMembers),
           .make =
               [make = kind.make_centre](const NamedTensors& parameters) {
                 static const UpdateOptions options;
                 return make(parameters,
                             {.options = options, .members = kMembers});
               }},
          1, std::chrono::seconds(20));
      for (auto& link : links) {
        centres_.push_back(std::make_unique<CentreWays>(std::move(link)));
        all_.push_back(
            std::make_unique<Replica>(kind, nullptr, centres_.back().get()));
      }
      centres_[0]->only().open(
          {.parameters = named_copies(all_[0]->trained.tensors(), "")});
      for (const auto& each : all_)
        each->plan.exchange.quorum = quorum_of(kind, kMembers);
    } else {
      groups_ = memory_group(kMembers, std::chrono::seconds(20), "block 1");
      for (const auto& group : groups_)
        all_.push_back(std::make_unique<Replica>(kind, group.get(), nullptr));
    }
    for (int r = 0; r < kMembers; ++r) {
      of(r).gradients = {at::full({kElements}, r + 1.0)};
      of(r).set_weight(10 * (r + 1));
    }
  }

  Replica& of(int r) { return *all_.at(static_cast<std::size_t>(r)); }

  /// What each has after all have published.
  std::vector<ExchangeResult> exchange(ExchangeKind kind,
                                       std::int64_t batch = 0) {
    const Action action{.op = Op::settle, .batch = batch, .kind = kind};
    for (const auto& each : all_)
      each->exchange(kind).publish(each->context(action));
    std::vector<ExchangeResult> results;
    for (const auto& each : all_)
      results.push_back(each->exchange(kind).settle(each->context(action)));
    return results;
  }

 private:
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<std::unique_ptr<CentreWays>> centres_;
  std::vector<std::unique_ptr<Replica>> all_;
};

double first_of(const Tensors& tensors) {
  return tensors.at(0)[0].item<double>();
}

TEST(Exchanges, GiveTheSumOfGradients) {
  Replicas replicas("all_reduce", {});
  for (const ExchangeResult& each :
       replicas.exchange(ExchangeKind::gradients)) {
    EXPECT_EQ(first_of(each.gradients.value()), 1 + 2 + 3);
    EXPECT_FALSE(each.weights);
  }
}

TEST(Exchanges, GiveEachItsPartOfTheSumsAndGatherTheWeights) {
  Replicas replicas("all_reduce", {{"shard", true}});
  const auto sums = replicas.exchange(ExchangeKind::gradients);
  for (int r = 0; r < kMembers; ++r)
    EXPECT_EQ(
        sums[static_cast<std::size_t>(r)].gradients->at(0).numel(),
        parts_of({replicas.of(r).weight()}, {r + 1, kMembers})[0].numel());
  for (const ExchangeResult& each : replicas.exchange(ExchangeKind::gather))
    EXPECT_TRUE(each.gathered);
  for (int r = 1; r < kMembers; ++r)
    EXPECT_TRUE(replicas.of(r).weight().equal(replicas.of(0).weight()));
  EXPECT_EQ(replicas.of(2).weight()[0].item<double>(), 10)
      << "replica 1's part";
  EXPECT_EQ(replicas.of(0).weight()[kElements - 1].item<double>(), 30)
      << "replica 3's part";
}

TEST(Exchanges, GiveTheMeanOfWeights) {
  Replicas replicas("average", {});
  for (const ExchangeResult& each : replicas.exchange(ExchangeKind::weights)) {
    EXPECT_EQ(first_of(each.weights.value()), 20);
    EXPECT_TRUE(each.pulls.empty());
  }
}

TEST(Exchanges, GivePullsForTheNextUpdateWhereWeightsAreThoseBeforeIt) {
  Replicas replicas("elastic", {{"beta", 0.3}});
  const auto results = replicas.exchange(ExchangeKind::weights);
  for (int r = 0; r < kMembers; ++r) {
    const ExchangeResult& each = results[static_cast<std::size_t>(r)];
    EXPECT_FALSE(each.weights);
    EXPECT_NEAR(first_of(each.pulls), (0 - 10 * (r + 1)) * 0.1, 1e-6);
  }
}

TEST(Exchanges, GiveTheGradientsOfEachPeerInTheirOrder) {
  Replicas replicas("neighbours", {});
  for (const ExchangeResult& each : replicas.exchange(ExchangeKind::peers)) {
    ASSERT_EQ(each.of_each.size(), 3U);
    for (int r = 0; r < kMembers; ++r)
      EXPECT_EQ(first_of(each.of_each[static_cast<std::size_t>(r)]), r + 1);
  }
}

TEST(Exchanges, GiveWhatAPolicyMixesOfThePeersWeights) {
  Replicas replicas("gossip", {}, false, [](ReplicaKind& kind) {
    kind.exchange.what = ExchangedTensors::old_weights;
  });
  const auto results = replicas.exchange(ExchangeKind::peers);
  for (int r = 0; r < kMembers; ++r)
    EXPECT_NEAR(first_of(results[static_cast<std::size_t>(r)].pulls),
                20 - 10 * (r + 1), 1e-5);
}

TEST(Exchanges, GiveTheWeightsAndStatisticsOfTheBestWhereNoneIsWorseThanNan) {
  Replicas replicas("neighbours", {{"adopt_every", 1.0}});
  const double losses[] = {std::numeric_limits<double>::quiet_NaN(), 5, 2};
  for (int r = 0; r < kMembers; ++r) {
    replicas.of(r).rules.adoption->lost(at::full({1}, losses[r]), 1);
    replicas.of(r).block.buffers().at(0).second.fill_(r + 1);
  }
  for (const ExchangeResult& each : replicas.exchange(ExchangeKind::adoption))
    EXPECT_EQ(first_of(each.weights.value()), 30);
  for (int r = 0; r < kMembers; ++r) {
    EXPECT_EQ(replicas.of(r).block.buffers().at(0).second.item<double>(), 3);
    EXPECT_EQ(replicas.of(r).rules.adoption->badness().item<double>(), 0);
  }
}

TEST(Exchanges, GiveTheFirstWhatAllAgreeOn) {
  Replicas replicas("average", {});
  for (int r = 0; r < kMembers; ++r)
    replicas.of(r).block.buffers().at(0).second.fill_(r + 1);
  const auto results = replicas.exchange(ExchangeKind::agreement);
  ASSERT_TRUE(results[0].agreed);
  EXPECT_EQ(first_of(results[0].agreed->weights), 20);
  EXPECT_EQ(results[0].agreed->buffers.at(0).item<double>(), 2);
  EXPECT_FALSE(results[1].agreed || results[2].agreed);
}

TEST(Exchanges, GiveTheSumOfALesson) {
  Replicas replicas("all_reduce", {});
  for (const ExchangeKind kind :
       {ExchangeKind::lesson, ExchangeKind::input_lesson})
    for (const ExchangeResult& each : replicas.exchange(kind)) {
      EXPECT_EQ(first_of(each.lesson.value()), 6);
      EXPECT_FALSE(each.gradients);
    }
}

TEST(Exchanges, GiveTheUpdateThatACentreMakesOfGradients) {
  Replicas replicas("server", {}, true);
  const auto results = replicas.exchange(ExchangeKind::push);
  for (int r = 0; r < kMembers; ++r) {
    const ExchangeResult& each = results[static_cast<std::size_t>(r)];
    ASSERT_TRUE(each.update && each.visit);
    EXPECT_EQ(each.update->clock, r + 1);
    EXPECT_EQ(each.visit->place, r + 1);
    EXPECT_EQ(each.visit->missed, r) << "steps of those before it";
    EXPECT_TRUE(each.visit->is_over);
    EXPECT_FALSE(each.weights);
  }
}

TEST(Exchanges, GiveThePullsOfACentreOfWeights) {
  Replicas replicas("elastic", {{"one_by_one", true}, {"beta", 0.3}}, true);
  const auto results = replicas.exchange(ExchangeKind::push);
  EXPECT_NEAR(first_of(results[0].pulls), -10 * 0.1, 1e-6);
  EXPECT_FALSE(results[0].update || results[0].weights);
}

TEST(Exchanges, GiveAPullWhatWasMergedOfThePushesBefore) {
  Replicas replicas("average", {}, true);
  for (const ExchangeResult& each : replicas.exchange(ExchangeKind::push)) {
    EXPECT_FALSE(each.visit->is_over);
    EXPECT_FALSE(each.weights || each.update);
  }
  for (const ExchangeResult& each : replicas.exchange(ExchangeKind::pull)) {
    EXPECT_NEAR(first_of(each.weights.value()), 20, 1e-5);
    ASSERT_TRUE(each.visit->merged);
    EXPECT_FALSE(each.visit->merged->is_late);
  }
}

TEST(Exchanges, AreNotMadeOfWhatAReplicaLacks) {
  Replicas sums("all_reduce", {});
  for (const ExchangeKind kind :
       {ExchangeKind::none, ExchangeKind::weights, ExchangeKind::adoption,
        ExchangeKind::second, ExchangeKind::push, ExchangeKind::pull})
    EXPECT_EQ(sums.of(0).make(kind), nullptr) << row_of(kind).name;
  Replicas served("server", {}, true);
  for (const ExchangeRow& row : exchange_rows()) {
    const bool is_there = row.between == ExchangePartners::centre ||
                          row.kind == ExchangeKind::agreement;
    EXPECT_EQ(served.of(0).make(row.kind) != nullptr, is_there) << row.name;
  }
}

}  // namespace sluice::exchanges_test
