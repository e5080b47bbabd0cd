#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>

#include "lib/evaluation.h"
#include "lib/metrics/likeness.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/action.h"

namespace sluice {

/// What is said of a batch that was applied; tensors are scalars, undefined
/// when there is nothing to say.
struct Said {
  at::Tensor loss = {};
  at::Tensor correct = {};
  std::int64_t labels = 0;
  Figures figures = {};
};

/// The metric records of a block. Without a sink it only counts.
class WorkerLog {
 public:
  WorkerLog(int block, std::shared_ptr<Sink> sink,
            std::int64_t turns_per_epoch);

  /// A batch was applied; steps_between: the block's updates between its
  /// forward and its backward. What is said is for the next updated().
  void applied(const Action& action, std::int64_t steps_between, Said said);
  void updated(const Action& action, double learning_rate);
  void learned(const Action& action, const at::Tensor& loss);
  void evaluated(const Action& action, const Evaluation& evaluation);
  /// How often a gradient of each staleness was applied, a record for each.
  void staleness() const;
  /// The same by counter, "d_batch" and "d_upd", and value: for a checkpoint.
  using Counts = std::map<std::string, std::map<std::int64_t, std::int64_t>>;
  const Counts& counts() const { return counts_; }
  void restore(Counts counts) { counts_ = std::move(counts); }
  void write(const Record& record) const;

 private:
  Record record_of(std::string_view kind, const Action& action) const;

  int block_;
  std::shared_ptr<Sink> sink_;
  std::int64_t turns_per_epoch_;
  std::int64_t steps_between_ = 0;
  Said said_;
  Counts counts_;
};

}  // namespace sluice
