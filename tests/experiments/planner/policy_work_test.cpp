// The operations of heads, synthesizers and input models, against counts by
// hand. A product forward has two backward: at its input and at its weights.
#include "experiments/planner/policy_work.h"

#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/tensors/product_count.h"
#include "tests/experiments/helpers/methods.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::planner::policy_work_test {

constexpr double kPerMultiplyAdd = 2;
constexpr double kClasses = 10;

PolicyWork work_at(int block, const std::string& lines) {
  return policy_work(small_experiment(lines), block);
}

std::string mlp_with(const std::string& boundary) {
  return "blocks = ['0', '1-']\nmodel = {hidden = [24, 16, 12]}\nboundary = " +
         boundary + "\n";
}

std::string conv_with(const std::string& boundary) {
  return "blocks = ['0', '1-']\nmodel = {name = 'conv3', channels = 8}\n"
         "boundary = " +
         boundary + "\n";
}

TEST(ProductCount, KnowsMatricesAndConvolutions) {
  const auto a = at::ones({3, 5});
  const auto b = at::ones({5, 7});
  EXPECT_EQ(count_products([&] { at::mm(a, b); }), 2 * 3 * 5 * 7);
  EXPECT_EQ(count_products([&] { at::linear(a, b.t(), at::ones({7})); }),
            2 * 3 * 5 * 7);
  EXPECT_EQ(count_products([&] { at::relu(a + 1); }), 0);
  const auto maps = at::ones({2, 4, 8, 8});
  const auto filters = at::ones({6, 4, 3, 3}).requires_grad_();
  at::Tensor out;
  // Stride 2 and a border of 1: 4 x 4 places.
  EXPECT_EQ(count_products([&] { out = at::conv2d(maps, filters, {}, 2, 1); }),
            2. * 2 * 6 * 16 * 4 * 9);
  // The maps ask for no gradient.
  EXPECT_EQ(count_products([&] { out.sum().backward(); }),
            2. * 2 * 6 * 16 * 4 * 9);
}

TEST(ProductCount, EndsWithTheWork) {
  EXPECT_EQ(count_products([] {}), 0);
  EXPECT_THROW(count_products([] { throw 1; }), int);
  at::mm(at::ones({2, 2}), at::ones({2, 2}));
  EXPECT_EQ(count_products([] {}), 0);
}

// The copy of the layer 16 -> 12 is made for the 24 features that it gets.
TEST(PolicyWork, WorkOfAnAugLocalHeadIsThatOfItsLayers) {
  EXPECT_EQ(work_at(1, mlp_with("{policy = 'local_loss', head = {name = "
                                "'aug_local', depth = 1}}"))
                .signal,
            3 * kPerMultiplyAdd * (24 * 12 + 12 * kClasses));
  EXPECT_EQ(work_at(1, mlp_with("{policy = 'local_loss', head = {name = "
                                "'aug_local', depth = 2}}"))
                .signal,
            3 * kPerMultiplyAdd * (24 * 16 + 16 * 12 + 12 * kClasses));
}

// The similarity of each of 32 samples with each, of 24 features of a layer.
TEST(PolicyWork, WorkOfAHeadThatComparesSamplesGrowsWithTheBatch) {
  const auto at_size = [](int size) {
    return work_at(1, fmt::format("batch_size = {}\n", size) +
                          mlp_with("{policy = 'local_loss', head = {name = "
                                   "'predsim'}}"))
        .signal;
  };
  const double grown = at_size(32) - at_size(16);
  EXPECT_GT(grown, 0);
  EXPECT_NEAR(at_size(48) - at_size(32), grown, 1e-6 * grown);
}

// The lesson goes backward through the prediction that was the signal; the
// features ask for no gradient.
TEST(PolicyWork, WorkOfASynthesizerIsItsForwardAndItsLesson) {
  const PolicyWork flat = work_at(
      1, mlp_with("{policy = 'synthetic_gradient', synthesizer = {hidden = 1, "
                  "width = 20}}"));
  EXPECT_EQ(flat.signal, kPerMultiplyAdd * (24 * 20 + 20 * 24));
  EXPECT_EQ(flat.learn, kPerMultiplyAdd * (24 * 20 + 2 * 20 * 24));
  const Experiment experiment = small_experiment(
      conv_with("{policy = 'synthetic_gradient', synthesizer = {hidden = 1}}"));
  const PolicyWork maps = policy_work(experiment, 1);
  const SampleShape& shape = experiment.model.layers[0].output;
  const auto conv =
      static_cast<double>(shape[0] * shape[0] * 25 * shape[1] * shape[2]);
  EXPECT_EQ(maps.signal, kPerMultiplyAdd * 2 * conv);
  EXPECT_EQ(maps.learn, kPerMultiplyAdd * 3 * conv);
}

TEST(PolicyWork, WorkOfAnInputModelIsItsForwardAndItsLesson) {
  const Experiment experiment = small_experiment(
      mlp_with("{policy = 'synthetic_gradient', unlock = {hidden = 1, width = "
               "20}}"));
  double pixels = 1;
  for (const std::int64_t size : experiment.model.sample.shape)
    pixels *= static_cast<double>(size);
  EXPECT_EQ(policy_work(experiment, 1).learn_input,
            kPerMultiplyAdd * (2 * pixels * 20 + 3 * 20 * 24));
}

TEST(PolicyWork, WorkOfBackPropagationIsNone) {
  const PolicyWork work = work_at(1, mlp_with("{policy = 'backprop'}"));
  EXPECT_EQ(work.signal + work.learn + work.learn_input, 0);
}

class PolicyWorkOf : public testing::TestWithParam<MethodUnderTest> {};

TEST_P(PolicyWorkOf, EveryMethodCanBeCounted) {
  const PolicyWork work = work_at(1, mlp_with(GetParam().boundary));
  EXPECT_GE(work.signal, 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, PolicyWorkOf, testing::ValuesIn(methods()),
                         [](const auto& info) { return info.param.name; });

class HeadWork : public testing::TestWithParam<const char*> {};

TEST_P(HeadWork, WorkOfEveryHeadIsCounted) {
  EXPECT_GT(work_at(1, conv_with(fmt::format("{{policy = 'local_loss', head = "
                                             "{{name = '{}'}}}}",
                                             GetParam())))
                .signal,
            0);
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadWork,
                         testing::Values("linear", "conv", "mlp_sr", "predsim",
                                         "infopro", "man", "aug_local"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace sluice::planner::policy_work_test
