#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "tests/experiments/helpers/training.h"

namespace sluice {

/// The oracle of all methods that delay the gradient from above: plain ATen and
/// autograd over an MLP that is written out here, nothing of Sluice but its
/// data and its first weights. It follows the equations, turn by turn, with all
/// weights and inputs of the past at hand; there are no queues, no messages and
/// no schedule to share a mistake with.
class DelayOracle {
 public:
  /// What the backward of a batch is taken at.
  enum class Weights : std::uint8_t {
    of_forward,  ///< back-propagation through the whole network at the weights
                 ///< with which each block forwarded the batch
    of_today,    ///< the block's stored input through its weights of today
    mixed        ///< the activations of the forward, the weights of today
  };
  /// An update of a block, by the gradient of one batch.
  struct Update {
    int block = 1;
    std::int64_t turn = 0;
    std::int64_t staleness = 0;  ///< updates since the forward of the batch
    std::vector<at::Tensor>& weights;
    const std::vector<at::Tensor>& gradients;
    const std::vector<at::Tensor>& weights_of_forward;
  };
  struct Method {
    std::int64_t delay = 1;  ///< of every boundary
    bool backward_first = false;
    Weights weights = Weights::of_forward;
    double beta = 1;
    double rate = 0;
    double momentum = 0;
    /// The weights of a forward are those that the velocity predicts for the
    /// turn of its backward.
    bool predicts = false;
    /// With Weights::mixed: the weights of a backward are moved back along the
    /// velocity of the weights by the updates since the forward; a change
    /// counts there by this after as many updates. 0: they aren't moved.
    double velocity_decay = 0;
    /// Empty: SGD, with a velocity v = momentum v + g.
    std::function<void(const Update&)> update = {};
  };

  /// Blocks as `of` has them: MLPs of linear layers, BatchNorm or none, and
  /// ReLU.
  DelayOracle(const Training& of, Method method);

  Applications train();
  /// Weights of a block, in the order of its layers.
  const std::vector<at::Tensor>& weights(int block) const {
    return weights_.at(block);
  }

 private:
  struct Layer {
    at::Tensor weight, bias, norm_weight, norm_bias;
    bool is_last = false;
  };
  using Parameters = std::vector<at::Tensor>;
  struct Backward {
    Parameters gradients;
    at::Tensor below;  // at the block's input
  };

  std::int64_t delay_of(int block) const;
  std::int64_t updates_until_backward(int block, std::int64_t batch) const;
  Parameters predicted(int block, std::int64_t batch) const;
  Parameters extrapolated(int block, std::int64_t batch) const;
  void follow(int block, const Parameters& before, std::int64_t staleness);
  Parameters& now(int block) { return weights_.at(block); }
  at::Tensor run(int block, const at::Tensor& input,
                 const Parameters& weights) const;
  at::Tensor loss_at(const at::Tensor& logits, std::int64_t batch) const;
  void forward(int block, std::int64_t batch);
  void step(int block, const Parameters& by);
  void apply(int block, std::int64_t turn, std::int64_t batch,
             Applications& applied);
  Backward of_forward(int block, std::int64_t batch);
  Backward of_today(int block, std::int64_t batch);
  Backward mixed(int block, std::int64_t batch);

  Method method_;
  int blocks_;
  std::int64_t turns_;
  bool has_norm_;
  std::vector<int> layers_;  // per block
  std::vector<Batch> batches_;
  std::map<int, Parameters> weights_;
  std::map<int, Parameters> velocities_;
  std::map<int, Parameters> changes_;  // of weights by an update, averaged
  std::map<int, std::int64_t> updates_;
  // By (block, batch).
  std::map<std::pair<int, std::int64_t>, Parameters> weights_of_forward_;
  std::map<std::pair<int, std::int64_t>, std::int64_t> updates_at_forward_;
  std::map<std::pair<int, std::int64_t>, at::Tensor> inputs_;
  std::map<std::pair<int, std::int64_t>, at::Tensor> signals_;  // at its output
};

}  // namespace sluice
