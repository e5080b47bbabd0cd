#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "experiments/api/layer_factory.h"
#include "experiments/api/run_of_network.h"
#include "experiments/data/samples/data_set.h"
#include "lib/base/config_node.h"
#include "lib/blocks/loss.h"
#include "lib/boundaries/boundary.h"
#include "lib/boundaries/head.h"
#include "lib/replicas/replica_policy.h"
#include "lib/updates/optimizer.h"

namespace sluice {

/// A policy or an optimizer as a config gives it: its name, then its options as
/// in an inline table: "local_loss", "adam, lr = 1e-3", "local_loss, head =
/// {name = 'predsim'}". Or the table itself.
struct Choice {
  Choice(const char* text) : text(text) {}  // NOLINT(google-explicit-*)
  Choice(std::string text)                  // NOLINT(google-explicit-*)
      : text(std::move(text)) {}
  Choice(ConfigNode table)  // NOLINT(google-explicit-*)
      : table(std::move(table)) {}

  std::string text = {};
  ConfigNode table = {};
};

/// Options of a Network: its layers, data shapes and settings.
struct NetworkOptions {
  /// The network's layers, from the input up.
  std::vector<LayerFactory> layers = {};
  /// A batch like those of step(), for its sizes and its type alone: [N, ...]
  /// of float32, or of tokens, int64 [N, T].
  at::Tensor example = {};
  /// The layers, from 0, at which a block begins; that of layer 0 needs no
  /// mention. {2, 4} makes three blocks: layers 0-1, 2-3 and 4 to the end.
  std::vector<std::int64_t> cuts = {};
  /// The policies of the boundaries, bottom first; or one, for all. None:
  /// backprop.
  std::vector<Choice> boundaries = {};
  /// One optimizer of this kind for each block; none: plain SGD. In `settings`,
  /// [optimizer.2] holds for one block.
  Choice optimizer = "";
  /// Everything else that a config says and that is not about data, model and
  /// loop, as TOML: "engine = 'threads'", "seed", "masks", "loss" ... See
  /// `sluice help config`. `turns` and `turns_per_epoch` are for schedules of
  /// the learning rate, and for what a run says of epochs.
  std::string settings = {};
  /// Policies of one's own, which `boundaries` can then name. A row is
  /// {"name", "what it is", function that reads its options}. What one draws
  /// from LibTorch's process-wide generator while it is made is the same on
  /// every engine; what it draws later should come from BatchContext::pass.
  std::vector<PolicyRow> policies = {};
  /// Replica policies of one's own, which `replicas.policy` in `settings` can
  /// then name: {"name", "what it is", function that reads its options}
  /// (lib/replicas/replica_policy.h).
  std::vector<ReplicaPolicyRow> replica_policies = {};
  /// Heads, losses, optimizers and data sets of one's own, likewise, for
  /// `boundaries` ("local_loss, head = {name = 'mine'}"), `optimizer` and
  /// `settings` ("loss.name = 'mine'"). Networks of one process share them: a
  /// name has one function. Batches of a loop come to step(); a data set is for
  /// programs whose loop is Sluice's (program.h).
  std::vector<HeadRow> heads = {};
  std::vector<LossRow> losses = {};
  std::vector<OptimizerRow> optimizers = {};
  std::vector<DataSetRow> data_sets = {};
  /// The folder of the run that the network writes; by default none. The keys
  /// `name`, `checkpoint` (its turns count those of `turns_per_epoch`), `trace`
  /// and `hashes` of `settings` are then as for `sluice run`.
  RunOfNetwork run = {};
};

/// The config that these options amount to. Throws UserError for what can't be
/// read, or is said twice.
ConfigNode config_of(const NetworkOptions& options);

}  // namespace sluice
