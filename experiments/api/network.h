#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "experiments/api/network_options.h"
#include "experiments/api/own_model.h"
#include "experiments/api/step.h"
#include "experiments/config/experiment.h"
#include "experiments/runs/assembled_model.h"
#include "experiments/runs/worker_process.h"
#include "lib/base/temporary_folder.h"
#include "lib/blocks/evaluation.h"
#include "lib/engines/crew.h"

namespace sluice {

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
/// run` with those layers, on every engine.
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
  /// inputs: [N, ...] as the example; labels [N] int64, of texts [N, T]. Both
  /// are copied. Under `threads` and `processes` returns while blocks still
  /// work, at most four turns for each block ahead of the slowest.
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
  /// "<folder>/turn-000120".
  std::string save(const std::string& folder);
  /// Goes on from such a checkpoint; or from turn 0 with the weights of a
  /// safetensors file, which is what a checkpoint of another cut can give too.
  void load(const std::string& path);

  /// How many steps were taken.
  std::int64_t turns() const { return turn_; }
  int blocks() const { return experiment_.blocks(); }

 private:
  friend class Step;
  friend int main(int, char**, const NetworkOptions&,
                  const std::function<void(Network&)>&);

  /// program: what worker processes are started from; without a file they
  /// can't be.
  Network(const NetworkOptions& options, const ConfigNode& config,
          WorkerProgram program);

  void start(const std::string& resume);
  void write_config() const;
  void give(Grant grant, const Batch* batch = nullptr);
  void wait(std::size_t ahead = 0);
  void collect(const Record& record);
  void check_inputs(const at::Tensor& inputs) const;
  void check_labels(const at::Tensor& labels, std::int64_t samples) const;
  std::string checkpoint();
  void refresh_whole();

  TemporaryFolder scratch_;
  OwnModel own_;
  Experiment experiment_;
  NamedTensors draws_;  ///< of policies of one's own; policy_draws.h
  WorkerProgram program_;
  AssembledModel whole_;  ///< for evaluation
  bool whole_is_fresh_ = false;
  std::unique_ptr<Crew> crew_;
  std::size_t given_ = 0;  ///< grants, also of crews before this one
  bool failed_ = false;
  std::int64_t turn_ = 0;
  std::int64_t first_batch_ = 0;
  std::int64_t first_turns_end_ = 0;  ///< until then a step waits
  std::map<std::int64_t, std::shared_ptr<Step::Records>> records_;  // by turn
};

}  // namespace sluice
