#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lib/base/messages/channel.h"
#include "lib/blocks/evaluation.h"
#include "lib/metrics/likeness.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"
#include "lib/replicas/centre/centre_visit.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/plan/micro_batches.h"
#include "lib/schedules/plan/plan.h"
#include "lib/tensors/tensors.h"
#include "lib/workers/late_records.h"

namespace sluice {

/// Figures of a batch that was applied; tensors are scalars, undefined
/// when there is nothing to say.
struct BatchFigures {
  at::Tensor loss = {};
  at::Tensor correct = {};
  std::int64_t labels = 0;
  double share = 1;  ///< of the batch in its turn: the loss of a turn is a mean
  Figures figures = {};
};

/// Replica for a record; nothing where the block has only one.
std::optional<int> replica_of(const BlockPlan& plan);

/// The metric records of a block, or of one of its replicas. Without a sink it
/// only counts. Losses and accuracies that a GPU computes are read late
/// (LateRecords); what evaluated() writes comes after all of them.
class SeatLog {
 public:
  /// late_updates: how many updates may follow before a record is written.
  SeatLog(const BlockPlan& plan, std::shared_ptr<Sink> sink,
          const Epochs& epochs, std::int64_t late_updates);

  /// A batch was applied. staleness: in batches. Figures of the batches of a
  /// turn are for the next updated().
  void applied(const Action& action, std::int64_t staleness,
               BatchFigures figures);
  /// Notes how late a gradient was, or so many were, in updates: those of the
  /// weights between its forward and its backward; or until a centre came to
  /// it; or of weights that replicas share until its own. Before the updated()
  /// that is of the batch.
  void late_by(std::int64_t steps_between, std::int64_t batches = 1);
  /// A batch was drawn, after the source had learned from some losses.
  void drew(const Action& forward, std::int64_t deal,
            const std::vector<std::int64_t>& learned) const;
  /// An input came from a replay buffer: `age` is how many batches newer the
  /// newest is that was ever written into the buffer, `reuse` how often the
  /// input was used before.
  void took(std::int64_t age, std::int64_t reuse);
  /// The record of an update, of which went_on() tells. gradient_norm: a
  /// scalar; undefined: it isn't recorded.
  void updated(const Action& action, double learning_rate,
               const at::Tensor& gradient_norm);
  /// An update has been started, whether it is logged or not.
  void went_on() { late_.updated(); }
  /// Writes what is still to come, which it waits for.
  void settle() { late_.settle(); }
  /// A learner of an end (synthesizer, input model) has learned from a batch.
  /// `name`: that of the loss, "synthesizer_loss" or "input_loss".
  void learned(const Action& action, std::string_view name,
               const at::Tensor& loss);
  /// validation, training: nullptr where no such samples are evaluated.
  void evaluated(const Action& action, const Evaluation& test,
                 const Evaluation* validation, const Evaluation* training);
  /// Writes a record of kind "status": the time by this process's clock, the
  /// seconds that the block has waited so far (`waiting`), and the bytes of the
  /// messages that wait to be received over each link.
  void status(const Action& action, double waiting, const Link& below,
              const Link& above) const;
  /// Records the number of activations that the boundary above has dropped.
  void dropped(std::size_t messages) const;
  /// The block's centre has lost a replica since all agreed last.
  void lost(const Action& agreement, const CentreLoss& loss) const;
  /// A hash of each gradient and tensor after an update.
  void hashed(const Action& action, const NamedTensors& gradients,
              const NamedTensors& weights);
  /// How often a gradient of each staleness was applied, and an input of each
  /// age and reuse taken: a record for each.
  void staleness() const;
  /// Counts of staleness by counter ("d_batch", "d_upd", "input_age",
  /// "input_reuse") and value: for a checkpoint.
  using Counts = std::map<std::string, std::map<std::int64_t, std::int64_t>>;
  const Counts& counts() const { return counts_; }
  void restore(Counts counts) { counts_ = std::move(counts); }
  void write(const Record& record) const;

 private:
  records::BatchFields place_of(const Action& action) const;

  int block_;
  std::optional<int> replica_;
  std::shared_ptr<Sink> sink_;
  Epochs epochs_;
  MicroBatches micro_batches_;
  std::int64_t staleness_ = 0;
  std::int64_t steps_between_ = 0;
  std::int64_t said_turn_ = -1;
  BatchFigures figures_;
  Counts counts_;
  LateRecords late_;
};

}  // namespace sluice
