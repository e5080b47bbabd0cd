// Auxiliary variables of an echo (the serial-parallel hybrid of Sun et al.): a
// pass from the top leaves them, passes with the weights first go by them.
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/experiments/helpers/training.h"
#include "tests/oracles/plain_variables.h"

namespace sluice::echoed_variables_test {

/// Ten batches of augmented samples to an epoch: echoes of three lie across
/// its end.
std::string net(int batches, int times, const std::string& more) {
  return "blocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n"
         "data = {train = 320, test = 64, augment = {crop = 2}, echo = "
         "{batches = " +
         std::to_string(batches) + ", times = " + std::to_string(times) +
         "}}\n" + more;
}

/// The hybrid: `boundary` in the first pass over an echo, and with `later` in
/// those after it.
std::string hybrid(int batches, int times, const std::string& boundary,
                   const std::string& later = "", double rate = 0.05) {
  const int visits = batches * times;
  return net(batches, times,
             "turns = 30\noptimizer = {lr = " + std::to_string(rate) +
                 "}\nboundary = {" + boundary +
                 ", memory = 'echo'}\n"
                 "[[timetable]]\nturn = " +
                 std::to_string(batches) +
                 "\nboundary = {order = 'weights_first'" + later +
                 "}\n[[timetable]]\nturn = " + std::to_string(visits) +
                 "\nrepeat = 14\n");
}

NamedTensors layers_of(const NamedTensors& all) {
  NamedTensors layers;
  for (const auto& named : all)
    if (named.first.starts_with("layers.")) layers.push_back(named);
  return layers;
}

NamedTensors trained(const std::string& lines) {
  Training training(small_experiment(lines));
  training.train();
  return layers_of(training.weights());
}

// Against plain autograd.

struct OracleCase {
  const char* name;
  int batches;
  int times;
  const char* boundary;
  const char* later;
  PlainVariables options;
};

class EchoOfPlainAutograd : public testing::TestWithParam<OracleCase> {};

TEST_P(EchoOfPlainAutograd, HasItsWeightsOver30Turns) {
  const auto& [name, batches, times, boundary, later, asked] = GetParam();
  PlainVariables options = asked;
  options.echo = batches;
  options.times = times;
  options.per_sample = true;
  const std::string lines = hybrid(batches, times, boundary, later);
  const NamedTensors found = trained(lines);
  EXPECT_LT(distance(plain_variables(lines, options), found), 1e-5);
  // Variables that are forgotten, or another strength, would be seen.
  PlainVariables other = options;
  other.per_sample = false;
  EXPECT_GT(distance(plain_variables(lines, other), found), 1e-3);
  other = options;
  other.beta *= 2;
  EXPECT_GT(distance(plain_variables(lines, other), found), 1e-4);
}

const OracleCase kCases[] = {
    {"PenaltyThatStays",
     3,
     2,
     "policy = 'penalty', beta = 0.5, step_size = 2",
     ", steps = 0",
     {.beta = 0.5, .step_size = 2, .moves_later = false}},
    {"PenaltyThatMoves",
     2,
     3,
     "policy = 'penalty', beta = 0.5, step_size = 1.8",
     "",
     {.beta = 0.5, .step_size = 1.8}},
    {"PenaltyOfOneBatch",
     1,
     2,
     "policy = 'penalty', beta = 0.1, step_size = 8",
     ", steps = 0",
     {.beta = 0.1, .step_size = 8, .moves_later = false}},
    {"AugmentedLagrangianThatStays",
     3,
     2,
     "policy = 'augmented_lagrangian', beta = 0.5, step_size = 2",
     ", steps = 0",
     {.beta = 0.5,
      .step_size = 2,
      .dual = PlainDual::each_step,
      .moves_later = false}},
    {"AugmentedLagrangianThatMoves",
     2,
     3,
     "policy = 'augmented_lagrangian', beta = 0.5, step_size = 1.8",
     "",
     {.beta = 0.5, .step_size = 1.8, .dual = PlainDual::each_step}},
    {"BlockAdmm",
     2,
     2,
     "policy = 'block_admm', beta = 0.5, step_size = 0.6, steps = 3, order = "
     "'top_down', step = 'gradient'",
     ", steps = 1",
     {.beta = 0.5,
      .step_size = 0.6,
      .steps = 3,
      .dual = PlainDual::each_batch}}};

INSTANTIATE_TEST_SUITE_P(Cases, EchoOfPlainAutograd, testing::ValuesIn(kCases),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

// Against back-propagation on the same batches.

Applications applied(const std::string& lines) {
  return Training(small_experiment(lines)).train_and_record();
}

/// A block's updates in some turns.
std::vector<ShownUpdate> part_of(const std::vector<ShownUpdate>& all,
                                 std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::string back_propagation(int batches, int times, double rate) {
  return net(batches, times,
             "turns = 30\noptimizer = {lr = " + std::to_string(rate) + "}\n");
}

/// While weights stay, a multiplier is minus the gradient at features that are
/// the variable itself.
TEST(EchoedVariables, LaterPassesHaveTheGradientsOfBackPropagationAtRate0) {
  const Applications exact = applied(back_propagation(3, 2, 0));
  const Applications dual = applied(
      hybrid(3, 2, "policy = 'augmented_lagrangian'", ", steps = 0", 0));
  for (const auto& [block, updates] : exact) {
    ASSERT_EQ(updates.size(), 30U);
    EXPECT_EQ(difference(updates, dual.at(block)), "") << "block " << block;
  }
}

/// A network without kinks.
std::string smooth(std::string lines) {
  const std::string hidden = "hidden = [24, 20]";
  return lines.replace(lines.find(hidden), hidden.size(),
                       hidden + ", activation = 'tanh'");
}

/// The variable of a penalty is off the features by the gradient over beta, and
/// the last block takes it as its input. Block 1 takes the data. Of what the
/// target of block 2 asks for its input has done a part, whatever beta.
TEST(EchoedVariables, TheLastBlockOfAPenaltyIsOffByOneOverBetaAtRate0) {
  const Applications exact = applied(smooth(back_propagation(3, 2, 0)));
  const auto penalty = [](const std::string& strength) {
    return applied(smooth(
        hybrid(3, 2, "policy = 'penalty', " + strength, ", steps = 0", 0)));
  };
  const Applications loose = penalty("beta = 5, step_size = 0.2");
  const Applications tight = penalty("beta = 50, step_size = 0.02");
  EXPECT_LT(distance(exact.at(1), tight.at(1)), 1e-5);
  EXPECT_NEAR(
      distance(exact.at(3), loose.at(3)) / distance(exact.at(3), tight.at(3)),
      10, 1.5);
  EXPECT_GT(distance(exact.at(2), tight.at(2)), 1e-4);
}

TEST(EchoedVariables, LaterPassesDifferFromBackPropagationAboveRate0) {
  const Applications exact = applied(back_propagation(3, 2, 0.05));
  const Applications dual =
      applied(hybrid(3, 2, "policy = 'augmented_lagrangian'", ", steps = 0"));
  for (const auto& [block, updates] : exact) {
    const auto& found = dual.at(block);
    EXPECT_EQ(difference(part_of(updates, 0, 3), part_of(found, 0, 3)), "")
        << "the pass from the top, block " << block;
    EXPECT_GT(distance(part_of(updates, 3, 6), part_of(found, 3, 6)), 1e-4)
        << "the pass after it, block " << block;
  }
}

TEST(EchoedVariables, AVariableThatStaysSendsNothingDown) {
  const Experiment experiment =
      small_experiment(hybrid(3, 2, "policy = 'penalty'", ", steps = 0"));
  const Action backward{.op = Op::backward, .batch = 4, .turn = 4, .phase = 1};
  EXPECT_EQ(needs_of(experiment.plans[0], 1, {.op = Op::backward}).size(), 1U);
  EXPECT_TRUE(needs_of(experiment.plans[1], 1, backward).empty());
  EXPECT_TRUE(yields_of(experiment.plans[1], 2, backward).empty());
  const Experiment moves = small_experiment(hybrid(3, 2, "policy = 'penalty'"));
  EXPECT_EQ(yields_of(moves.plans[1], 2, backward).size(), 1U);
}

/// Phases that say the same share their ends, however often they come.
TEST(EchoedVariables, PhasesThatRepeatShareOneTable) {
  Training training(
      small_experiment(hybrid(3, 2, "policy = 'penalty'", ", steps = 0")));
  int tables = 0;
  for (const auto& [name, tensor] : training.weights())
    if (name.ends_with(".z")) {
      ++tables;
      EXPECT_EQ(tensor.size(0), 3 * 32) << name;
    }
  EXPECT_EQ(tables, 2);
}

}  // namespace sluice::echoed_variables_test
