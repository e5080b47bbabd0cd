// Weights that replicas read and add to in one place, and the policy that does.
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/replicas/groups/memory.h"
#include "lib/replicas/replica_policy.h"
#include "lib/replicas/shared_weights.h"

namespace sluice::shared_test {

constexpr std::int64_t kElements = 257;

at::Tensor values_in(const SharedWeights& weights, const at::Tensor& like) {
  const at::Tensor values = at::empty_like(like);
  weights.load({values});
  return values;
}

/// In so many threads at once.
template <class Work>
void at_once(int threads, const Work& work) {
  std::barrier begin(threads);
  std::vector<std::jthread> all;
  for (int r = 0; r < threads; ++r)
    all.emplace_back([&, r] {
      begin.arrive_and_wait();
      work(r);
    });
}

/// Whole numbers, of which doubles have exact sums in any order.
TEST(SharedWeights, LoseNothingThatThreadsAdd) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 2000;
  const at::Tensor first = at::arange(kElements, at::kDouble);
  SharedWeights weights;
  at_once(kThreads, [&](int r) {
    weights.fill({{"w", first}});
    const at::Tensor step = at::arange(kElements, at::kDouble) + (r + 1);
    at::Tensor mine = at::empty_like(first);
    for (int i = 0; i < kTimes; ++i) {
      weights.load({mine});
      weights.add({mine}, {mine + step});
    }
  });
  const at::Tensor all_steps =
      kThreads * at::arange(kElements, at::kDouble) + (1 + 2 + 3 + 4);
  EXPECT_TRUE(values_in(weights, first).equal(first + kTimes * all_steps));
  EXPECT_EQ(weights.updates(), kThreads * kTimes);
}

/// Each moves elements of its own, by what no float adds up exactly.
TEST(SharedWeights,
     SharedWeightsOfDisjointElementsHaveTheBitsOfOneThreadAfterTheOther) {
  constexpr int kThreads = 3;
  constexpr int kTimes = 1000;
  const at::Tensor first = at::linspace(-1, 1, kElements, at::kFloat);
  const auto moved = [](at::Tensor values, int r, int i) {
    const at::Tensor part = values.slice(0, r, kElements, kThreads);
    part.mul_(0.9).add_(1.0 / (3 + r + i));
    return values;
  };
  SharedWeights weights;
  at_once(kThreads, [&](int r) {
    weights.fill({{"w", first}});
    at::Tensor mine = at::empty_like(first);
    for (int i = 0; i < kTimes; ++i) {
      weights.load({mine});
      weights.add({mine}, {moved(mine.clone(), r, i)});
    }
  });
  at::Tensor expected = first.clone();
  for (int r = 0; r < kThreads; ++r)
    for (int i = 0; i < kTimes; ++i) expected = moved(expected, r, i);
  EXPECT_TRUE(values_in(weights, first).equal(expected));
  EXPECT_FALSE(expected.equal(first));
}

TEST(SharedWeights, AreWhatAnUpdateLeftUnlessOthersCameBetween) {
  const at::Tensor large = at::full({2}, 1e8, at::kFloat);
  const at::Tensor small = at::full({2}, 1.2345, at::kFloat);
  ASSERT_FALSE((large + (small - large)).equal(small));
  SharedWeights alone;
  alone.fill({{"w", large}});
  alone.add({large}, {small});
  EXPECT_TRUE(values_in(alone, large).equal(small));

  SharedWeights raced;
  raced.fill({{"w", large}});
  raced.add({large}, {large + 64});
  raced.add({large}, {small});
  EXPECT_TRUE(values_in(raced, large).equal((large + 64) + (small - large)));
}

TEST(SharedWeights, KeepWhatAnUpdateHasNotMoved) {
  const at::Tensor zeros = at::zeros({3}, at::kFloat);
  SharedWeights weights;
  weights.fill({{"w", zeros}});
  weights.add({zeros}, {zeros + 5});
  const at::Tensor half_moved = zeros.clone();
  half_moved[1] = 2.0;
  weights.add({zeros}, {half_moved});
  const at::Tensor now = values_in(weights, zeros);
  EXPECT_EQ(now[0].item<double>(), 5);
  EXPECT_EQ(now[1].item<double>(), 7);
  EXPECT_EQ(now[2].item<double>(), 5);
}

TEST(SharedWeights, KeepTheirOrderInMemory) {
  const at::Tensor images = at::arange(48, at::kFloat)
                                .reshape({2, 3, 2, 4})
                                .contiguous(at::MemoryFormat::ChannelsLast);
  SharedWeights weights;
  weights.fill({{"w", images}});
  EXPECT_TRUE(values_in(weights, images).equal(images));
  const at::Tensor otherwise = at::empty({2, 3, 2, 4}, at::kFloat);
  EXPECT_THROW(weights.load({otherwise}), InternalError);
}

TEST(SharedWeights, AreNotedWhenTheLastHasCome) {
  const at::Tensor zeros = at::zeros({2}, at::kFloat);
  SharedWeights weights;
  weights.fill({{"w", zeros}});
  for (int round = 1; round <= 2; ++round) {
    weights.arrive(2);
    weights.add({zeros}, {zeros + 1});
    EXPECT_TRUE(weights.settled()[0].equal(zeros + (round - 1.0)));
    weights.arrive(2);
    EXPECT_TRUE(weights.settled()[0].equal(zeros + double(round)));
  }
}

TEST(SharedWeights, SharedWeightsOfOtherTypesAreRefused) {
  SharedWeights weights;
  EXPECT_THROW(weights.fill({{"w", at::zeros({2}, at::kHalf)}}), UserError);
}

/// The policies of a block's replicas, each with weights of its own.
class Replicas {
 public:
  explicit Replicas(int count)
      : groups_(memory_group(count, std::chrono::seconds(20), "block 1")) {
    for (const auto& group : groups_) {
      const ConfigNode config{.value = ConfigNode::Table{}};
      Fields fields(&config, "replicas");
      const at::Tensor own = at::zeros({3}, at::kFloat);
      rules_.push_back(find_row(replica_policies(), "shared", "replica policy")
                           .make(fields)
                           .make({{"w", own}}, {.member = group->member(),
                                                .members = count,
                                                .group = group.get()}));
      rules_.back().policy->begin({own});
      weights_.push_back(own);
    }
  }

  ReplicaPolicy& policy(int r) { return *rules_.at(index(r)).policy; }
  MemoryRule& memory(int r) { return *rules_.at(index(r)).memory; }
  double weight(int r) const { return weights_.at(index(r))[0].item<double>(); }
  void read(int r) { memory(r).before_forward({weights_.at(index(r))}); }
  void move(int r, double by) {
    memory(r).before_update({weights_.at(index(r))});
    weights_.at(index(r)).add_(by);
    memory(r).after_update({weights_.at(index(r))});
  }

 private:
  static std::size_t index(int r) { return static_cast<std::size_t>(r) - 1; }

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<ReplicaRules> rules_;
  std::vector<at::Tensor> weights_;
};

TEST(Shared, ComputesOnItsOwnAndAddsHowFarItHasMoved) {
  Replicas replicas(2);
  replicas.read(1);
  replicas.read(2);
  replicas.move(1, 4);
  EXPECT_EQ(replicas.weight(1), 4);
  EXPECT_EQ(replicas.weight(2), 0) << "until it reads again";
  replicas.move(2, 1);
  EXPECT_EQ(replicas.weight(2), 1);
  replicas.read(1);
  EXPECT_EQ(replicas.weight(1), 5);
}

TEST(Shared, CountsTheUpdatesOfOthersBetweenReadingAndAdding) {
  Replicas replicas(3);
  for (const int r : {1, 2, 3}) replicas.read(r);
  for (const int r : {1, 2, 3}) {
    EXPECT_EQ(replicas.memory(r).late_by(0), r - 1);
    replicas.move(r, 1);
  }
  // A gradient that waited for an update of its own, in a block with a delay.
  replicas.read(1);
  EXPECT_EQ(replicas.memory(1).late_by(1), 3);
  EXPECT_EQ(replicas.memory(1).late_by(0), 0);
}

/// In a drain updates follow each other without a forward between them.
TEST(Shared, CountsFromTheReadingOfTheGradientThatIsLeft) {
  Replicas replicas(2);
  for (int batch = 0; batch < 3; ++batch) {
    if (batch > 0) replicas.move(1, 1);
    replicas.read(1);
  }
  for (int batch = 0; batch < 3; ++batch) {
    EXPECT_EQ(replicas.memory(1).late_by(2), 2) << batch;
    replicas.move(1, 1);
  }
}

TEST(Shared, AgreesOnWhatIsThereWhenAllHaveCome) {
  Replicas replicas(2);
  for (const int r : {1, 2}) replicas.read(r);
  replicas.move(1, 4);
  replicas.memory(1).before_agreement();
  replicas.move(2, 2);
  replicas.memory(2).before_agreement();
  for (const int r : {1, 2}) replicas.memory(r).after_agreement();
  replicas.read(2);
  replicas.move(2, 100);  // of the turn after it
  EXPECT_EQ(replicas.policy(1).consensus({})[0][0].item<double>(), 6);
  EXPECT_EQ(replicas.policy(1).state()[0].second[0].item<double>(), 6);
}

TEST(Shared, GoesOnFromItsState) {
  Replicas before(2);
  before.read(2);
  before.move(2, 7);
  for (const int r : {1, 2}) before.memory(r).before_agreement();
  for (const int r : {1, 2}) before.memory(r).after_agreement();
  Replicas after(2);
  for (const int r : {1, 2}) {
    const NamedTensors saved = before.policy(r).state();
    const NamedTensors into = after.policy(r).state();
    ASSERT_EQ(into.size(), saved.size());
    for (std::size_t i = 0; i < saved.size(); ++i)
      into[i].second.copy_(saved[i].second);
  }
  after.read(1);
  EXPECT_EQ(after.weight(1), 7);
}

}  // namespace sluice::shared_test
