#pragma once

#include <cstdint>
#include <vector>

#include "experiments/data/order/echo.h"

namespace sluice {

struct OrderOptions {
  std::int64_t batch_size = 64;
  /// Decides the order together with the epoch, and nothing else does.
  std::uint64_t seed = 0;
  bool shuffled = true;
  /// Leaves out the last batch of an epoch when it is not full.
  bool drop_last = false;
  /// Whether samples of a training split come with random changes.
  bool augmented = true;
  /// Whether batches come with what the inputs were before normalisation.
  bool raw_inputs = false;
  /// Whether batches come with the indices of their samples, or with echo
  /// with the places of their samples in the echo.
  bool sample_ids = false;
  Echo echo = {};
};

/// Which samples batch t is made of: with n = t, or with echo the number of the
/// batch that comes again, those of epoch n / batches_per_epoch(), position
/// n % batches_per_epoch() in that epoch's order. Used by one thread at a time:
/// it remembers the order of the last epoch that was asked for.
class SampleOrder {
 public:
  /// Throws UserError when no batch can be made: no samples, a batch size
  /// below 1, or, with drop_last, above `samples`.
  SampleOrder(std::int64_t samples, OrderOptions options);

  std::int64_t batches_per_epoch() const { return batches_per_epoch_; }
  /// Epoch of the samples of batch t; t >= 0.
  std::int64_t epoch(std::int64_t t) const;
  /// The indices of the samples of batch t.
  std::vector<std::int64_t> batch(std::int64_t t);
  /// Rows of tables in which policies keep something of these samples, those of
  /// batch t: their indices, or with echo their places in the echo.
  std::vector<std::int64_t> rows(
      std::int64_t t, const std::vector<std::int64_t>& indices) const;

 private:
  void prepare(std::int64_t epoch);

  std::int64_t samples_;
  OrderOptions options_;
  std::int64_t batches_per_epoch_;
  std::int64_t prepared_epoch_ = -1;
  std::vector<std::int64_t> order_;
};

}  // namespace sluice
