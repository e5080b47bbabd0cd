#include "lib/weights/weight_versions.h"

#include <deque>
#include <memory>
#include <set>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

namespace sluice::weight_versions_test {

class TwoWeights final : public Layer {
 public:
  TwoWeights()
      : factor_(register_parameter("factor", at::full({3, 2}, 2.0))),
        term_(register_parameter("term", at::full({2}, 1.0))) {}
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs[0] * factor_ + term_};
  }

 private:
  at::Tensor factor_;
  at::Tensor term_;
};

class WeightVersionsTest : public testing::Test {
 protected:
  at::Tensor weight() const { return block_.parameters()[0].second; }
  static at::Tensor weight_of(const std::shared_ptr<Block>& twin) {
    return twin->parameters()[0].second;
  }
  /// As an update does: into new storage, if there is to be some.
  void add(double value) {
    const at::NoGradGuard no_grad;
    const Tensors storage = versions_.next();
    for (std::size_t i = 0; i < block_.parameters().size(); ++i) {
      at::Tensor parameter = block_.parameters()[i].second;
      const at::Tensor next = parameter.detach() + value;
      if (!storage.empty()) parameter.set_data(storage[i]);
      parameter.variable_data().copy_(next);
    }
  }

  Block block_{1, 0, [] { return Layers{std::make_shared<TwoWeights>()}; },
               MemoryFormat::contiguous};
  WeightVersions versions_{block_};
};

TEST_F(WeightVersionsTest, TodaysShareTheStorageOfTheBlock) {
  EXPECT_EQ(weight_of(versions_.today()).data_ptr(), weight().data_ptr());
  EXPECT_EQ(versions_.held_bytes(), 0);
}

TEST_F(WeightVersionsTest, OneVersionHasOneTwin) {
  const auto first = versions_.today();
  EXPECT_EQ(versions_.today(), first);
}

TEST_F(WeightVersionsTest, StayAsTheyAreWhileSomebodyHoldsThem) {
  const auto held = versions_.today();
  const at::Tensor before = weight().detach().clone();
  add(1);
  EXPECT_TRUE(at::equal(weight_of(held), before));
  EXPECT_TRUE(at::equal(weight(), before + 1));
  EXPECT_GT(versions_.held_bytes(), 0);
}

TEST_F(WeightVersionsTest, AreOverwrittenWhenNobodyHoldsThem) {
  void* const storage = weight().data_ptr();
  versions_.today();
  add(1);
  EXPECT_EQ(weight().data_ptr(), storage);
  EXPECT_EQ(weight_of(versions_.today()).data_ptr(), storage);
}

TEST_F(WeightVersionsTest, VersionsOfDelayDTakeDPlusOneStorages) {
  std::set<void*> storages;
  std::deque<std::shared_ptr<Block>> in_flight;
  for (int turn = 0; turn < 20; ++turn) {
    in_flight.push_back(versions_.today());
    storages.insert(weight().data_ptr());
    if (in_flight.size() > 2) in_flight.pop_front();
    add(1);
    // The oldest one is of two updates ago.
    EXPECT_TRUE(turn == 0 ||
                at::equal(weight_of(in_flight.front()) + 2, weight()));
  }
  EXPECT_EQ(storages.size(), 3u);
}

TEST_F(WeightVersionsTest, CopiesAreOfTheirOwnStorage) {
  Tensors others;
  for (const auto& [name, parameter] : block_.parameters())
    others.push_back(at::ones_like(parameter.detach()));
  const auto copy = versions_.copy_of(others);
  const auto today = versions_.today();
  EXPECT_TRUE(at::equal(weight_of(copy), others[0]));
  EXPECT_NE(copy, today);
  add(1);
  EXPECT_TRUE(at::equal(weight_of(copy), others[0]));
}

}  // namespace sluice::weight_versions_test
