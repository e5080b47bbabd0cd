// The norms of gradients in the records of updates (gradient_norms = true).
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::gradient_norm_test {

class Updates final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto train = record.as<records::Train>())
      of_turns.push_back(*train);
  }
  std::vector<records::Train> of_turns;
};

/// Norm as recorded; below 0: none was.
double told(const records::Train& train) {
  for (const auto& [name, value] : train.figures)
    if (name == "gradient_norm") return value;
  return -1;
}

double norm_of(const Tensors& gradients) {
  double sum = 0;
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined())
      sum += gradient.to(at::kDouble).square().sum().item<double>();
  return std::sqrt(sum);
}

/// By block and turn.
using UpdateNorms = std::map<std::pair<int, std::int64_t>, double>;

struct Norms {
  UpdateNorms said = {};
  UpdateNorms applied = {};  ///< of what the optimizer got
};

Norms norms(const std::string& lines) {
  const auto sink = std::make_shared<Updates>();
  Training training(small_experiment("turns = 8\nmodel = {hidden = [12, 12]}\n"
                                     "boundary = {policy = 'local_loss'}\n" +
                                     lines),
                    sink);
  const Applications applications = training.train_and_record();
  Norms all;
  for (const records::Train& train : sink->of_turns)
    all.said[{train.block, train.turn}] = told(train);
  for (const auto& [block, updates] : applications)
    for (const ShownUpdate& update : updates)
      all.applied[{block, update.turn}] = norm_of(update.gradients);
  return all;
}

void expect_same(const Norms& norms, std::size_t updates) {
  EXPECT_EQ(norms.said.size(), updates);
  ASSERT_EQ(norms.applied.size(), updates);
  for (const auto& [update, applied] : norms.applied)
    EXPECT_NEAR(norms.said.at(update), applied, 1e-5 * applied)
        << "block " << update.first << ", turn " << update.second;
}

TEST(GradientNorm, IsThatOfWhatTheOptimizerGets) {
  const Norms plain = norms("gradient_norms = true\n");
  expect_same(plain, 16);
  EXPECT_NE(plain.said.at({1, 0}), plain.said.at({2, 0}));
  EXPECT_NE(plain.said.at({1, 0}), plain.said.at({1, 1}));
}

TEST(GradientNorm, IsThatOfTheMeanOfAWindow) {
  const std::string window = "gradient_norms = true\naccumulate = {batches = 2";
  expect_same(norms(window + ", rule = 'mean'}\n"), 8);
  expect_same(norms(window + "}\n"), 8);
}

TEST(GradientNorm, IsToldBeforeClipping) {
  const Norms clipped =
      norms("gradient_norms = true\noptimizer = {clip = {norm = 1e-3}}\n");
  EXPECT_GT(clipped.said.at({1, 0}), 1e-2);
  EXPECT_NEAR(clipped.applied.at({1, 0}), 1e-3, 1e-6);
}

TEST(GradientNorm, IsToldOnlyWhereItIsAskedFor) {
  const Norms untold = norms("");
  EXPECT_EQ(untold.said.size(), 16U);
  for (const auto& [update, said] : untold.said) EXPECT_EQ(said, -1);
}

}  // namespace sluice::gradient_norm_test
