// A boundary of non-negative factors (DeepFacto), by itself against plain loops
// and in whole runs.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_factors.h"

namespace sluice::nmf_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

using Matrix = std::vector<std::vector<double>>;

Matrix matrix_of(const at::Tensor& tensor) {
  Matrix rows(static_cast<std::size_t>(tensor.size(0)));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::int64_t j = 0; j < tensor.size(1); ++j)
      rows[i].push_back(tensor[static_cast<std::int64_t>(i)][j].item<double>());
  return rows;
}

Matrix transposed(const Matrix& a) {
  Matrix t(a[0].size(), std::vector<double>(a.size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[0].size(); ++j) t[j][i] = a[i][j];
  return t;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(b[0].size()));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b[0].size(); ++j)
      for (std::size_t k = 0; k < b.size(); ++k) c[i][j] += a[i][k] * b[k][j];
  return c;
}

template <class F>
Matrix each(const Matrix& a, const Matrix& b, const F& f) {
  Matrix c = a;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[0].size(); ++j) c[i][j] = f(a[i][j], b[i][j]);
  return c;
}

double gap(const Matrix& a, const at::Tensor& b) {
  double largest = 0;
  const Matrix other = matrix_of(b);
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[0].size(); ++j)
      largest = std::max(largest, std::abs(a[i][j] - other[i][j]));
  return largest;
}

std::unique_ptr<Lower> boundary(const ConfigNode::Table& options) {
  const ConfigNode config = {.value = options};
  Fields fields(&config, "boundary");
  BoundarySite site;
  site.features = {5};
  site.seed = 3;
  return find_row(policies(), "nmf", "policy")
      .make.configure(fields, {})
      .lower(site);
}

at::Tensor drawn(const char* name, std::vector<std::int64_t> sizes) {
  return at::randn(sizes, Pass{}.generator(name));
}

Signal signal_of(Lower& lower, const at::Tensor& h, const at::Tensor& g) {
  const Tensors features = {h};
  const Tensors from_above = {g};
  const at::Tensor labels = at::zeros({h.size(0)}, at::kLong);
  return lower.signal(
      {.features = features, .labels = labels, .from_above = from_above});
}

at::Tensor factors_of(const Lower& lower) {
  return lower.buffers().at(0).second;
}

TEST(Nmf, HasTheNumbersOfPlainLoops) {
  const auto lower = boundary({{"rank", {.value = std::int64_t{3}}},
                               {"fits", {.value = std::int64_t{4}}},
                               {"beta", {.value = 2.0}},
                               {"step_size", {.value = 0.2}},
                               {"factor_step_size", {.value = 0.5}}});
  const at::Tensor h = drawn("h", {4, 5}).abs();
  const at::Tensor g = drawn("g", {4, 5}) / 4;
  Matrix f = matrix_of(factors_of(*lower));
  const Matrix x = matrix_of(h);
  const Matrix target = product(x, transposed(f));
  Matrix s = target;
  for (int i = 0; i < 4; ++i) {
    const Matrix below = product(s, product(f, transposed(f)));
    s = each(each(s, target, [](double a, double b) { return a * b; }), below,
             [](double a, double b) { return a / (b + 1e-8); });
  }
  EXPECT_LT(gap(product(s, f), lower->publish(0, {h}, {}).at(0)), 1e-4);

  const Matrix pull = each(
      each(product(s, f), x, [](double z, double a) { return 2 * (z - a); }),
      matrix_of(g), [](double r, double d) { return r + 4 * d; });
  const Matrix at_s = product(pull, transposed(f));
  const Matrix at_f = product(transposed(s), pull);
  double size = 0;  // the mean of |s|^2
  for (const auto& row : s)
    for (const double value : row) size += value * value / 4;
  s = each(s, at_s,
           [](double a, double d) { return std::max(a - 0.2 * d, 0.0); });
  f = each(f, at_f, [size](double a, double d) {
    return std::max(a - 0.5 * d / 4 / size, 0.0);
  });
  const Matrix expected = each(
      product(s, f), x, [](double z, double a) { return -2 * (z - a) / 4; });
  const at::Tensor before = factors_of(*lower).clone();
  EXPECT_LT(gap(expected, signal_of(*lower, h, g).gradients.at(0)), 1e-4);
  EXPECT_LT(gap(f, factors_of(*lower)), 1e-4);
  EXPECT_GT(gap(f, before), 1e-2);
}

TEST(Nmf, StaysNonNegativeWhateverComes) {
  const auto lower = boundary(
      {{"step_size", {.value = 3.0}}, {"factor_step_size", {.value = 3.0}}});
  int clamped = 0;  // updates that took a factor's share of a unit to 0
  for (std::int64_t batch = 0; batch < 20; ++batch) {
    const at::Tensor before = factors_of(*lower).clone();
    const at::Tensor h =
        at::randn({6, 5}, Pass{.batch = batch}.generator("h")).abs();
    const at::Tensor z = lower->publish(batch, {h}, {}).at(0);
    EXPECT_TRUE(z.ge(0).all().item<bool>());
    signal_of(*lower, h,
              at::randn({6, 5}, Pass{.batch = batch}.generator("g")));
    EXPECT_TRUE(factors_of(*lower).ge(0).all().item<bool>());
    EXPECT_TRUE(factors_of(*lower).isfinite().all().item<bool>());
    const at::Tensor came = factors_of(*lower).eq(0).logical_and(before.gt(0));
    clamped += came.any().item<bool>() ? 1 : 0;
  }
  EXPECT_GT(clamped, 0) << "nothing came to its bound";
}

/// A step that is not divided by the size of S grows with its square, and goes
/// to and fro ever further.
TEST(Nmf, LearnsTheSameFactorsWhateverTheScaleOfTheFeatures) {
  const auto after = [](int batches, double scale) {
    const auto lower = boundary({{"rank", {.value = std::int64_t{3}}},
                                 {"factor_step_size", {.value = 1.0}}});
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const Pass pass{.batch = batch};
      const at::Tensor h = at::randn({6, 5}, pass.generator("h")).abs() * scale;
      lower->publish(batch, {h}, {});
      signal_of(*lower, h, at::randn({6, 5}, pass.generator("g")) * scale / 60);
    }
    return factors_of(*lower).clone();
  };
  const at::Tensor plain = after(20, 1);
  EXPECT_TRUE(after(20, 100).allclose(plain, 1e-2, 1e-3));
  EXPECT_LT(plain.max().item<double>(), 3);
  EXPECT_FALSE(after(0, 1).allclose(plain, 1e-2, 1e-2));
}

TEST(Nmf, RefusesNegativeFeaturesWithTheRemedy) {
  const auto publishing = [](double lowest) {
    return [lowest] {
      boundary({})->publish(0, {at::full({2, 5}, lowest)}, {});
    };
  };
  EXPECT_NO_THROW(publishing(0)());
  EXPECT_THAT(publishing(-0.5),
              ThrowsMessage<UserError>(HasSubstr("the lowest is -0.5: set "
                                                 "model.activation = 'relu'")));
}

TEST(Nmf, MoreUpdatesComeNoFurtherFromTheFeatures) {
  const at::Tensor h = drawn("h", {6, 5}).abs();
  double last = 1e9;
  for (const std::int64_t fits : {0, 1, 10, 100}) {
    const auto lower = boundary({{"fits", {.value = fits}}});
    // The first factors share no unit: no update comes any nearer with them.
    factors_of(*lower).copy_(drawn("dense", {8, 5}).abs() / 4);
    const double off =
        (lower->publish(0, {h}, {}).at(0) - h).norm().item<double>();
    EXPECT_LT(off, last) << fits;
    last = off;
  }
}

std::string net(const std::string& boundary) {
  return "blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n"
         "optimizer = {lr = 0.05}\nboundary = {" +
         boundary + "}\n";
}

TEST(Nmf, BeginsWithFactorsThatShareNoUnit) {
  const auto lower = boundary({{"rank", {.value = std::int64_t{3}}}});
  const at::Tensor f = factors_of(*lower);
  EXPECT_LT((f.mm(f.t()) - at::eye(3)).abs().max().item<double>(), 1e-6);
  EXPECT_TRUE(f.sum(0).gt(0).all().item<bool>()) << "a unit has no factor";
}

TEST(Nmf, NmfOfAsManyFactorsAsUnitsLetsFeaturesThrough) {
  const at::Tensor h = drawn("h", {4, 5}).abs();
  const auto off = [&](std::int64_t rank) {
    const auto lower = boundary({{"rank", {.value = rank}}});
    return (lower->publish(0, {h}, {}).at(0) - h).abs().max().item<double>();
  };
  EXPECT_LT(off(5), 1e-5);
  EXPECT_GT(off(2), 1e-2);
}

TEST(Nmf, LearnsItsFactorsWithTheBlocks) {
  Training training(small_experiment(net("policy = 'nmf', rank = 6")));
  const NamedTensors before = copies_of(training.weights());
  training.train();
  const NamedTensors after = training.weights();
  int factors = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_FALSE(after[i].second.equal(before[i].second)) << after[i].first;
    if (!after[i].first.starts_with("factors.")) continue;
    ++factors;
    EXPECT_TRUE(after[i].second.ge(0).all().item<bool>()) << after[i].first;
  }
  EXPECT_EQ(factors, 2);
}

/// In float64, of which float32 is some 1e-6 off.
TEST(NmfRun, HasTheWeightsAndFactorsOfPlainAutogradOver30Turns) {
  const std::string lines =
      "turns = 30\n" +
      net("policy = 'nmf', rank = 12, fits = 5, beta = 2, step_size = 0.2, "
          "factor_step_size = 0.3");
  const PlainFactors options{.lr = 0.05,
                             .beta = 2,
                             .step_size = 0.2,
                             .factor_step_size = 0.3,
                             .fits = 5};
  Training training(small_experiment(lines));
  training.train();
  const NamedTensors found = training.weights();
  const NamedTensors expected = plain_factors(lines, options);
  ASSERT_EQ(expected.size(), 8U);  // of three layers and two boundaries
  EXPECT_LT(distance(expected, found), 1e-5);
  // A wrong step, weight or fit would be seen.
  const auto off = [&](PlainFactors other) {
    return distance(plain_factors(lines, other), found);
  };
  PlainFactors other = options;
  other.step_size = 0.1;
  EXPECT_GT(off(other), 1e-3);
  other = options;
  other.factor_step_size = 0.15;
  EXPECT_GT(off(other), 1e-3);
  other = options;
  other.beta = 1;
  EXPECT_GT(off(other), 1e-3);
  other = options;
  other.fits = 4;
  EXPECT_GT(off(other), 1e-3);
}

/// Three epochs: S and u of a sample go on where they were.
TEST(NmfRun, FactorsOfSamplesHaveTheWeightsOfPlainAutogradOver30Turns) {
  for (const bool dual : {false, true}) {
    const std::string lines =
        "turns = 30\n" +
        net("policy = 'nmf', rank = 12, fits = 5, beta = 0.5, step_size = 0.8, "
            "factor_step_size = 0.3, memory = 'sample', dual = " +
            std::string(dual ? "true" : "false"));
    const PlainFactors options{.lr = 0.05,
                               .beta = 0.5,
                               .step_size = 0.8,
                               .factor_step_size = 0.3,
                               .fits = 5,
                               .per_sample = true,
                               .dual = dual};
    Training training(small_experiment(lines));
    training.train();
    const auto off = [&](PlainFactors other) {
      return distance(plain_factors(lines, other), training.weights());
    };
    EXPECT_LT(off(options), 1e-5) << dual;
    PlainFactors other = options;
    other.dual = !dual;
    EXPECT_GT(off(other), 1e-3);
    other = options;
    other.per_sample = false;
    EXPECT_GT(off(other), 1e-3);
  }
}

}  // namespace sluice::nmf_test
