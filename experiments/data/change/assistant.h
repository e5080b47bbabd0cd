#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/base/config.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/tensors/tensors.h"

namespace sluice {

/// AutoAssist: training samples that an assistant takes for easy are skipped
/// (Zhang et al. 2019, "AutoAssist: A Framework to Accelerate Training of Deep
/// Neural Networks").
struct AssistOptions {
  /// p0: a sample that comes up is trained on with the probability
  /// p0 + (1 - p0) * vote. 0: there is no assistant.
  double acceptance = 0;
  double learning_rate = 0.01;
  /// Whether batches are drawn ahead, by the losses that have come by then.
  bool is_free = false;
  /// In lockstep batch t is drawn by what is known of the losses of batches up
  /// to t - lag. 0: as soon as the schedule has brought them.
  std::int64_t lag = 0;

  bool is_on() const { return acceptance > 0; }
  void describe(Fields& fields);
};

/// By batch: the batches whose losses the assistant learned from, in this
/// order, after it had drawn the batch before, and before it drew this one.
/// Batches without such losses may be absent.
using RecordedLessons = std::map<std::int64_t, std::vector<std::int64_t>>;

/// Predicts whether a sample's loss is above the mean of its batch, by logistic
/// regression on the input and the class y: vote = sigmoid(w . x + u[y]), which
/// is 1/2 before it has learned. Plain loops over doubles: the same bits with
/// any number of threads. A value type.
class Assistant {
 public:
  /// Makes an assistant. `elements`: number of elements of an input.
  Assistant(std::int64_t elements, std::int64_t classes);

  /// Inputs float32 [N, ...], labels int64 [N] -> a vote in [0, 1] for each.
  std::vector<double> votes(const at::Tensor& inputs,
                            const at::Tensor& labels) const;
  /// A step of gradient descent on the mean cross entropy of the N votes.
  /// losses: float64 [N].
  void learn(const at::Tensor& inputs, const at::Tensor& labels,
             const at::Tensor& losses, double learning_rate);
  /// False for ever after a loss or a weight has become NaN or infinite: then
  /// its votes mean nothing: use none of them, and teach it nothing.
  bool is_alive() const { return alive_; }

  /// Adds the assistant's tensors as "<name>.weights.*" and "<name>.alive".
  void save(const std::string& name, NamedTensors& all) const;
  void restore(const std::string& name, const SavedState& saved);

 private:
  std::vector<double> of_elements_;
  std::vector<double> of_classes_;
  bool alive_ = true;
};

}  // namespace sluice
