// Local losses that reach further than their own block. Labels P1-P5 (chunked,
// overlapping: section 6) and I1-I5 (interlocking: section 7.1) are those of
// the specification. The oracle is one autograd graph over the whole net, cut
// nowhere: which losses move which block is said by a table in the test.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include "experiments/data/order/sample_source.h"
#include "experiments/runs/seats/seat_sources.h"
#include "lib/boundaries/policies/plug_ins.h"
#include "tests/experiments/helpers/training.h"

namespace sluice::reach_test {

constexpr const char* kFive =
    "turns = 6\nblocks = ['0', '1', '2', '3', '4']\n"
    "model = {hidden = [24, 20, 18, 16]}\n";
constexpr const char* kThree =
    "turns = 6\nblocks = ['0', '1', '2']\nmodel = {hidden = [24, 20]}\n";

std::string rate(double lr) {
  return "optimizer = {lr = " + std::to_string(lr) + "}\n";
}

std::string within(std::int64_t reach, const std::string& rule) {
  return "boundary = {policy = 'local_loss', reach = " + std::to_string(reach) +
         ", rule = '" + rule + "'}\n";
}
constexpr const char* kBackprop = "boundary = {policy = 'backprop'}\n";
constexpr const char* kGreedy = "boundary = {policy = 'local_loss'}\n";

Applications applications(const std::string& lines) {
  Training training(small_experiment(lines));
  return training.train_and_record();
}

/// Whether the loss of the head above `head` moves `block`.
using Moves = std::function<bool(int head, int block)>;

/// Trains an MLP of one layer a block, with a linear classifier above each, by
/// plain autograd and SGD.
class ReachOracle {
 public:
  ReachOracle(const Training& of, double rate, Moves moves)
      : blocks_(of.experiment.blocks()),
        turns_(of.experiment.length.turns),
        rate_(rate),
        moves_(std::move(moves)),
        source_(of.experiment.data->train.samples(),
                {.batch_size = of.experiment.batch_size,
                 .seed = of.experiment.seed}) {
    for (const auto& [name, tensor] : of.weights())
      weights_[name] = tensor.detach().clone();
  }

  Applications train() {
    Applications applied;
    for (std::int64_t turn = 0; turn < turns_; ++turn) {
      for (auto& [name, tensor] : weights_)
        tensor = tensor.detach().requires_grad_();
      const std::vector<at::Tensor> losses = losses_of(source_.batch(turn));
      std::map<int, Tensors> gradients;
      for (int block = 1; block <= blocks_; ++block)
        gradients[block] = gradients_of(block, losses);
      for (auto& [block, all] : gradients) {
        step(block, all);
        applied[block].push_back({turn, turn, all});
      }
    }
    return applied;
  }

 private:
  at::Tensor of(const std::string& kind, int block, const char* member) const {
    const auto found =
        weights_.find(kind + "." + std::to_string(block - 1) + "." + member);
    return found == weights_.end() ? at::Tensor() : found->second;
  }
  Tensors own(int block) const {
    return {of("layers", block, "linear.weight"),
            of("layers", block, "linear.bias")};
  }
  Tensors head(int block) const {
    const at::Tensor weight = of("heads", block, "classifier.weight");
    if (!weight.defined()) return {};
    return {weight, of("heads", block, "classifier.bias")};
  }

  /// Index: the block; undefined where there is no head.
  std::vector<at::Tensor> losses_of(const Batch& batch) const {
    std::vector<at::Tensor> losses(static_cast<std::size_t>(blocks_) + 1);
    at::Tensor x = batch.inputs.flatten(1);
    for (int block = 1; block <= blocks_; ++block) {
      const Tensors weights = own(block);
      x = at::linear(x, weights[0], weights[1]);
      at::Tensor& loss = losses[static_cast<std::size_t>(block)];
      if (block == blocks_) {
        loss = at::cross_entropy_loss(x, batch.labels);
        break;
      }
      x = at::relu(x);
      const Tensors classifier = head(block);
      if (!classifier.empty())
        loss = at::cross_entropy_loss(
            at::linear(x, classifier[0], classifier[1]), batch.labels);
    }
    return losses;
  }

  Tensors gradients_of(int block, const std::vector<at::Tensor>& losses) const {
    at::Tensor sum;
    for (int of_head = block; of_head <= blocks_; ++of_head) {
      const at::Tensor& loss = losses[static_cast<std::size_t>(of_head)];
      if (loss.defined() && moves_(of_head, block))
        sum = sum.defined() ? sum + loss : loss;
    }
    Tensors all = torch::autograd::grad({sum}, own(block), {}, true);
    if (!head(block).empty())
      for (const at::Tensor& gradient :
           torch::autograd::grad({losses[static_cast<std::size_t>(block)]},
                                 head(block), {}, true))
        all.push_back(gradient);
    return all;
  }

  void step(int block, const Tensors& gradients) {
    const at::NoGradGuard no_grad;
    Tensors targets = own(block);
    for (const at::Tensor& tensor : head(block)) targets.push_back(tensor);
    for (std::size_t i = 0; i < targets.size(); ++i)
      targets[i].sub_(gradients[i] * rate_);
  }

  int blocks_;
  std::int64_t turns_;
  double rate_;
  Moves moves_;
  SampleSource source_;
  std::map<std::string, at::Tensor> weights_;
};

/// As the blocks of `lines` do it, per turn, to the rounding of sums.
void expect_oracle(const std::string& lines, const Moves& moves) {
  const Training first(small_experiment(lines + rate(0.1)));
  const Applications expected = ReachOracle(first, 0.1, moves).train();
  const Applications found = applications(lines + rate(0.1));
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [block, updates] : found) {
    ASSERT_EQ(updates.size(), expected.at(block).size());
    EXPECT_LT(distance(updates, expected.at(block)), 1e-6)
        << "block " << block << "\n"
        << lines;
  }
}

/// The gradients of the block's own weight and bias, without its head's.
std::vector<ShownUpdate> without_head(std::vector<ShownUpdate> updates) {
  for (ShownUpdate& update : updates) update.gradients.resize(2);
  return updates;
}

TEST(Reach, P1_OneChunkIsBackprop) {
  const std::string rest = "turns = 6\nblocks = 1\nmodel = {hidden = [24]}\n";
  EXPECT_EQ(difference(applications(rest + kGreedy + rate(0.1)).at(1),
                       applications(rest + kBackprop + rate(0.1)).at(1)),
            "");
}

TEST(Reach, P2_I4_OfZeroIsGreedy) {
  for (const char* rule : {"sum", "furthest"}) {
    const Applications found =
        applications(kFive + within(0, rule) + rate(0.1));
    const Applications greedy =
        applications(std::string(kFive) + kGreedy + rate(0.1));
    for (const auto& [block, updates] : found)
      EXPECT_EQ(difference(updates, greedy.at(block)), "") << rule;
  }
}

TEST(Reach, P4_OverlappingIsTheSumOfTheLossesWithinReach) {
  for (const std::int64_t reach : {1, 2, 3, 4})
    expect_oracle(kFive + within(reach, "sum"),
                  [&](int head, int block) { return head - block <= reach; });
}

TEST(Reach, P4_OverlappingIsNotGreedy) {
  EXPECT_GT(
      distance(applications(kFive + within(1, "sum") + rate(0.1)).at(2),
               applications(kFive + std::string(kGreedy) + rate(0.1)).at(2)),
      1e-4);
}

TEST(Reach, P3_I1_TheFurthestLossOfAllIsBackprop) {
  for (const double lr : {0.0, 0.1}) {
    const Applications found =
        applications(kFive + within(4, "furthest") + rate(lr));
    const Applications backprop =
        applications(kFive + std::string(kBackprop) + rate(lr));
    for (const auto& [block, updates] : found)
      EXPECT_EQ(difference(without_head(updates), backprop.at(block)), "")
          << "block " << block;
  }
}

TEST(Reach, P3_TheSumOfAllIsDeepSupervisionNotBackprop) {
  EXPECT_GT(
      distance(without_head(
                   applications(kFive + within(4, "sum") + rate(0.1)).at(1)),
               applications(kFive + std::string(kBackprop) + rate(0.1)).at(1)),
      1e-3);
}

TEST(Reach, I1_HeadsGoOnTrainingOnTheirOwnLoss) {
  const Applications found =
      applications(kFive + within(4, "furthest") + rate(0.1));
  for (int block = 1; block < 5; ++block)
    EXPECT_GT(found.at(block).back().gradients.at(2).abs().max().item<double>(),
              1e-4);
}

TEST(Reach, I2_InterlockingIsMovedByTheFurthestLossAlone) {
  for (const std::int64_t reach : {1, 2, 3})
    expect_oracle(kFive + within(reach, "furthest"), [&](int head, int block) {
      return head == std::min<int>(block + static_cast<int>(reach), 5);
    });
}

TEST(Reach, I3_OfOneBetweenTwoBlocksIsBackprop) {
  const std::string two =
      "turns = 6\nblocks = ['0', '1']\nmodel = {hidden = [24]}\n";
  EXPECT_EQ(
      difference(
          without_head(
              applications(two + within(1, "furthest") + rate(0.1)).at(1)),
          applications(two + kBackprop + rate(0.1)).at(1)),
      "");
}

TEST(Reach, EachBoundaryHasItsOwn) {
  // The loss of head j moves block k when every boundary between lets it pass.
  const std::string lines =
      std::string(kFive) +
      "boundary.1 = {policy = 'local_loss', reach = 3}\n"
      "boundary.2 = {policy = 'local_loss', reach = 1, rule = 'furthest'}\n"
      "boundary.3 = {policy = 'backprop'}\n"
      "boundary.4 = {policy = 'local_loss', reach = 1}\n";
  expect_oracle(lines, [](int head, int block) {
    const bool table[6][6] = {{},
                              // head: 1, 2, 3, 4, 5
                              {false, true, true, false, false, false},
                              {false, false, true, false, false, false},
                              {false, false, false, false, true, true},
                              {false, false, false, false, true, true},
                              {false, false, false, false, false, true}};
    return table[block][head];
  });
}

/// A local loss at a boundary.
struct LocalReach {
  std::int64_t reach = 0;
  bool is_furthest = false;
};
using LocalReaches = std::vector<LocalReach>;  // bottom first

std::string lines_of(const LocalReaches& reaches) {
  std::string lines = "turns = 2\nblocks = [";
  std::string hidden;
  for (std::size_t k = 0; k <= reaches.size(); ++k) {
    lines += "'" + std::to_string(k) + "', ";
    if (k < reaches.size()) hidden += std::to_string(24 - 2 * k) + ", ";
  }
  lines += "]\nmodel = {hidden = [" + hidden + "]}\n";
  for (std::size_t k = 0; k < reaches.size(); ++k)
    lines += "boundary." + std::to_string(k + 1) +
             " = {policy = 'local_loss', reach = " +
             std::to_string(reaches[k].reach) + ", rule = '" +
             (reaches[k].is_furthest ? "furthest" : "sum") + "'}\n";
  return lines;
}

/// By the definition: every boundary between lets the loss pass, and by the
/// rule `furthest` no loss of a block further up does.
Moves moves_of(const LocalReaches& reaches) {
  return [reaches](int head, int block) {
    const auto passes = [&](int loss) {
      for (int k = block; k < loss; ++k)
        if (loss - k > reaches[static_cast<std::size_t>(k) - 1].reach)
          return false;
      return true;
    };
    const int blocks = static_cast<int>(reaches.size()) + 1;
    if (block == blocks) return head == block;
    if (!passes(head)) return false;
    if (!reaches[static_cast<std::size_t>(block) - 1].is_furthest) return true;
    for (int further = head + 1; further <= blocks; ++further)
      if (passes(further)) return false;
    return true;
  };
}

TEST(Reach, EveryMixtureOfThreeBlocksIsThatOfPlainAutograd) {
  for (int first = 0; first < 6; ++first)
    for (int second = 0; second < 6; ++second) {
      const LocalReaches reaches = {{first / 2, first % 2 == 1},
                                    {second / 2, second % 2 == 1}};
      expect_oracle(lines_of(reaches), moves_of(reaches));
    }
}

TEST(Reach, MixturesOfFourAndFiveBlocksAreThoseOfPlainAutograd) {
  for (const LocalReaches& reaches :
       {LocalReaches{{2}, {1, true}, {1}}, LocalReaches{{1}, {2}, {1, true}},
        LocalReaches{{3}, {1, true}, {1, true}},
        LocalReaches{{3, true}, {2}, {1, true}},
        LocalReaches{{2}, {2, true}, {0}}, LocalReaches{{3}, {2, true}, {1}},
        LocalReaches{{3}, {2, true}, {1, true}, {1}},
        LocalReaches{{1}, {3}, {1, true}, {1}},
        LocalReaches{{3}, {3}, {2, true}, {1, true}},
        LocalReaches{{2, true}, {0}, {2}, {1, true}}})
    expect_oracle(lines_of(reaches), moves_of(reaches));
}

TEST(Reach, BackLinkTrainsTheTopOfAModuleByTheNextModulesLoss) {
  // Modules of two blocks: the lower halves see the loss of their own module
  // only, the upper ones that of the next module too.
  const std::string lines = std::string(kFive) +
                            "boundary.1 = {policy = 'backprop', reach = 1}\n"
                            "boundary.2 = {policy = 'local_loss', reach = 2}\n"
                            "boundary.3 = {policy = 'backprop', reach = 1}\n"
                            "boundary.4 = {policy = 'local_loss', reach = 2}\n";
  expect_oracle(lines, [](int head, int block) {
    switch (block) {
      case 1:
        return head == 2;
      case 2:
        return head == 2 || head == 4;
      case 3:
        return head == 4;
      case 4:
        return head == 4 || head == 5;
      default:
        return head == 5;
    }
  });
}

TEST(Reach, GradientsComeApartAtABoundaryWithoutALossOfItsOwn) {
  // Two losses come down to block 2, and one of them goes on to block 1.
  const std::string lines = std::string(kFive) +
                            "boundary.1 = {policy = 'backprop', reach = 2}\n"
                            "boundary.2 = {policy = 'backprop'}\n"
                            "boundary.3 = {policy = 'local_loss', reach = 2}\n"
                            "boundary.4 = {policy = 'backprop'}\n";
  expect_oracle(lines, [](int head, int block) {
    switch (block) {
      case 1:
        return head == 3;
      case 2:
      case 3:
        return head == 3 || head == 5;
      default:
        return head == 5;
    }
  });
}

TEST(Reach, BackLinkWithoutALinkIsGreedyAndWithAWholeOneThePairwiseSum) {
  // Two modules of two blocks each, K = 4 with the last layer.
  const std::string net =
      "turns = 6\nblocks = ['0', '1', '2', '3']\nmodel = {hidden = [24, 20, "
      "18]}\n";
  const std::string inside =
      "boundary.1 = {policy = 'backprop'}\n"
      "boundary.3 = {policy = 'backprop'}\n";
  const Applications greedy = applications(
      net + inside + "boundary.2 = {policy = 'local_loss'}\n" + rate(0.1));
  const Applications none =
      applications(net +
                   "boundary.1 = {policy = 'backprop', reach = 1}\n"
                   "boundary.3 = {policy = 'backprop'}\n"
                   "boundary.2 = {policy = 'local_loss'}\n" +
                   rate(0.1));
  for (const auto& [block, updates] : none)
    EXPECT_EQ(difference(updates, greedy.at(block)), "");
  expect_oracle(
      net + inside + "boundary.2 = {policy = 'local_loss', reach = 2}\n",
      [](int head, int block) { return head >= block; });
}

/// The applications when the weights of `moved` had been changed before.
Applications with_moved_block(const std::string& lines, int moved) {
  Training training(small_experiment("turns = 1\n" + lines));
  for (auto& [name, weight] : training.block(moved).weights())
    if (weight.is_floating_point()) weight.detach().mul_(1.5);
  return training.train_and_record();
}

TEST(Reach, P5_NothingBeyondTheReachMatters) {
  std::string lines = kFive + within(1, "sum") + rate(0.1);
  lines.erase(0, lines.find('\n') + 1);  // its turns
  const auto changed = [&](int moved, int block) {
    return !difference(with_moved_block(lines, moved).at(block),
                       applications("turns = 1\n" + lines).at(block))
                .empty();
  };
  EXPECT_TRUE(changed(3, 2));   // its loss comes from there
  EXPECT_FALSE(changed(4, 2));  // reach + 1 above
  EXPECT_FALSE(changed(5, 2));
}

TEST(Reach, LossesThatNobodyNeedsDontComeDown) {
  const Experiment experiment =
      small_experiment(kThree + within(1, "furthest"));
  const RunPlan& plan = experiment.plans[0];
  using Parts = std::vector<GradientPart>;
  const int stays = GradientPart::kStays;
  EXPECT_EQ(plan.blocks[2].gradients.parts, (Parts{{true, true, 0}}));
  EXPECT_EQ(plan.blocks[1].gradients.parts,
            (Parts{{true, false, 0}, {false, true, stays}}));
  EXPECT_EQ(plan.blocks[0].gradients.parts,
            (Parts{{true, false, stays}, {false, true, stays}}));
}

/// Multiplies by its weight; an image first becomes its mean.
class Scalar final : public Layer {
 public:
  explicit Scalar(double weight)
      : weight_(register_parameter("weight", at::full({}, weight))) {}
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs[0].flatten(1).mean(1, /*keepdim=*/true) * weight_};
  }
  void initialise(std::uint64_t /*key*/) override {}

 private:
  at::Tensor weight_;
};

/// Head whose loss is the mean of the features times its weight.
class ScalarHead final : public Head {
 public:
  explicit ScalarHead(double weight)
      : weight_(register_parameter("weight", at::full({}, weight))) {}
  HeadResult forward(const Tensors& features,
                     const HeadInputs& /*beside*/) override {
    return {(features[0] * weight_).mean(), {}};
  }

 private:
  at::Tensor weight_;
};

MakeHead scalar_head(Fields& /*options*/) {
  return [](const BoundarySite& site) {
    return std::make_shared<ScalarHead>(site.block == 1 ? 7 : 11);
  };
}

/// Three blocks of weights 2, 3 and 5, heads of 7 and 11; their gradients after
/// a turn, in units of the mean of the batch.
std::vector<double> scalar_gradients(const std::string& rule) {
  static const HeadRow kHeads[] = {{"linear", "", scalar_head}};
  Experiment experiment = small_experiment(
      "turns = 1\nblocks = ['0', '1', '2']\n"
      "model = {hidden = [1, 1]}\n" +
      within(1, rule));
  for (std::size_t i = 0; i < 3; ++i)
    experiment.model.layers[i].make = [i] {
      constexpr double kWeights[] = {2, 3, 5};
      return std::make_shared<Scalar>(kWeights[i]);
    };
  experiment.loss.training = [](const at::Tensor& outputs, const at::Tensor&) {
    return outputs.mean();
  };
  experiment.loss.evaluation = experiment.loss.training;
  const auto row = std::find_if(
      policies().begin(), policies().end(),
      [](const PolicyRow& each) { return each.name == "local_loss"; });
  for (BoundaryPolicy& boundary : experiment.phases[0]) {
    ConfigNode options;
    for (const char* key : {"reach", "rule"})
      options.set(key, *boundary.config.find(key));
    Fields fields(&options, "boundary");
    boundary.make = row->make.configure(fields, PlugIns{kHeads, nullptr});
  }
  const double mean =
      training_source(experiment)->batch(0).inputs.mean().item<double>();
  Training training(experiment);
  Applications applied = training.train_and_record();
  std::vector<double> gradients;
  for (int block = 1; block <= 3; ++block)
    gradients.push_back(applied.at(block).at(0).gradients.at(0).item<double>() /
                        mean);
  return gradients;
}

TEST(Reach, I5_OfAScalarNetIsWhatOneFindsByHand) {
  const std::vector<double> furthest = scalar_gradients("furthest");
  EXPECT_NEAR(furthest[0], 11 * 3, 1e-4);  // d(11 h2) / dw1
  EXPECT_NEAR(furthest[1], 5 * 2, 1e-4);   // dh3 / dw2
  EXPECT_NEAR(furthest[2], 2 * 3, 1e-4);
  const std::vector<double> sum = scalar_gradients("sum");
  EXPECT_NEAR(sum[0], 7 + 11 * 3, 1e-4);
  EXPECT_NEAR(sum[1], 11 * 2 + 5 * 2, 1e-4);
  EXPECT_NEAR(sum[2], 2 * 3, 1e-4);
}

TEST(Reach, OneGradientComesDownWhereAllLossesGoOnTogether) {
  const Experiment experiment = small_experiment(kFive + within(4, "sum"));
  for (const BlockPlan& plan : experiment.plans[0].blocks)
    EXPECT_EQ(plan.gradients.leaving, plan.block == 1 ? 0 : 1) << plan.block;
}

TEST(Reach, ADelayBelowItIsAllowed) {
  Training training(small_experiment(
      std::string(kFive) +
      "boundary.1 = {policy = 'delayed_gradient'}\n"
      "boundary.2 = {policy = 'local_loss', reach = 1}\n"
      "boundary.3 = {policy = 'local_loss', reach = 1, rule = 'furthest'}\n"
      "boundary.4 = {policy = 'local_loss'}\n" +
      rate(0.1)));
  const Applications found = training.train_and_record();
  EXPECT_EQ(found.at(1).size(), 6U);
  EXPECT_EQ(found.at(1).front().turn, 1);
}

}  // namespace sluice::reach_test
