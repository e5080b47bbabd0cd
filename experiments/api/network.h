#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "experiments/api/network_options.h"
#include "experiments/api/step.h"
#include "lib/blocks/evaluation.h"
#include "lib/tensors/tensors.h"

namespace sluice {

class NetworkCore;

/// A network of one's own layers, cut into blocks with a policy at each
/// boundary, and trained by a loop of one's own:
///
///   sluice::Network net({.layers = {[] { return torch::nn::Linear(64, 32); },
///                                   torch::relu,
///                                   [] { return torch::nn::Linear(32, 10); }},
///                        .example = torch::zeros({1, 64}),
///                        .cuts = {2},
///                        .boundaries = {"local_loss"}});
///   for (...) net.step(images, labels);
///
/// Given the same weights, batches and seed it computes the bits of `sluice
/// run` with those layers, on every engine. With NetworkOptions::run it writes
/// a run folder.
///
/// Replicas. With "replicas.count = R" in the settings a step is a turn of R
/// copies of the network: replica r of R trains on the r-th of R equal parts of
/// the batch. forward(), evaluate(), weights() and checkpoints have the weights
/// that the replicas agree on, as `sluice run` evaluates them: those of all, or
/// their mean, the outer optimizer's, the centre.
///
/// Threads. One thread uses a network at a time; under `threads` every block
/// has one of its own besides. Factories are called in the constructor, and
/// under `threads` also by the blocks' threads, one at a time, while a step of
/// the first turns waits for them. `virtual` computes in the calling
/// thread, with settings' `threads` intra-op threads. Nothing else
/// of the process is touched: a program with a main() of its own should call
/// install_allocator() first, as sluice::main() does; convolutional nets may
/// train at half the speed without.
///
/// Errors. A UserError before a block has begun to work (wrong options, shapes,
/// labels) changes nothing. What a block throws reaches the next call that
/// waits, as "block 2: ..."; after it the network can only be destroyed.
class Network {
 public:
  /// Throws UserError in one line for whatever is wrong with the options.
  /// engine = "processes" needs sluice::main() (program.h).
  explicit Network(const NetworkOptions& options);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// One turn of every block: forwards this batch, applies the one that is due.
  /// inputs: [N, ...] as the example; labels [N] int64, of texts [N, T]; N is a
  /// multiple of replicas(). Both are copied. Under `threads` and `processes`
  /// returns while blocks still work, at most four turns for each block ahead
  /// of the slowest.
  Step step(const at::Tensor& inputs, const at::Tensor& labels);
  /// Applies the batches that are still in flight (turns without forward), so
  /// that every block has applied every batch. Training can go on.
  void drain();

  /// Logits of the whole network in evaluation mode, the codecs of its
  /// boundaries included: [N, classes], of texts [N, T, classes]. Computed in
  /// this thread, with the weights after the last turn; training is not
  /// affected.
  at::Tensor forward(const at::Tensor& inputs);
  /// The logits of forward(), with their loss and accuracy.
  Evaluation evaluate(const at::Tensor& inputs, const at::Tensor& labels);

  /// Copies of all weights and statistics after the last turn, named as in
  /// checkpoints: "layers.0.weight", "heads.1.classifier.weight".
  NamedTensors weights();
  /// Saves a checkpoint, batches in flight included; returns its folder,
  /// "<folder>/turn-000120". An empty `folder` is that of the run, whose
  /// `checkpoint` keys say what is kept.
  std::string save(const std::string& folder = {});
  /// Goes on from such a checkpoint; or from turn 0 with the weights of a
  /// safetensors file, which is what a checkpoint of another cut can give too.
  /// A network that writes a run takes weights alone, before its first turn: it
  /// goes on from its own checkpoints with RunOfNetwork::resume.
  void load(const std::string& path);

  /// Writes into the run what evaluations after the last turn gave, on samples
  /// for the results and, where there are such, on those that decide which
  /// checkpoint is best. Throws UserError when no run is written.
  void record(const Evaluation& test);
  void record(const Evaluation& test, const Evaluation& validation);
  /// Ends the blocks and, with a checkpoint and what the blocks have cost, the
  /// run, which is complete then. forward(), evaluate() and weights() stay.
  /// sluice::main() calls it; a run that ends without it counts as stopped.
  void finish();

  /// How many steps were taken, those before a resumed run's checkpoint too.
  std::int64_t turns() const;
  int blocks() const;
  int replicas() const;

 private:
  friend int main(int, char**, const NetworkOptions&,
                  const std::function<void(Network&)>&);
  explicit Network(std::unique_ptr<NetworkCore> core);

  std::unique_ptr<NetworkCore> core_;
};

}  // namespace sluice
