#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "lib/blocks/source.h"
#include "lib/boundaries/boundary.h"
#include "lib/metrics/sink.h"
#include "lib/schedules/plan/plan.h"
#include "lib/workers/seat.h"

// Seats of blocks with one weight each, so that all they compute can be done by
// hand: block k makes h_k = w_k * h_(k-1) of its input.

namespace sluice::seats_under_test {

constexpr double kRate = 0.01;

/// Batch t: x = t + 1, [1, 1]; the label is 0.
class CountingSource final : public Source {
 public:
  Batch batch(std::int64_t t) override;
  std::int64_t batches_per_epoch() const override { return 1000; }
};

/// Half the squared distance of outputs and labels.
at::Tensor half_square(const at::Tensor& outputs, const at::Tensor& labels);

/// A lower end that gives the gradient from above, and with `own` that of the
/// loss h_k^2 / 2 too.
class PlainLower : public Lower {
 public:
  explicit PlainLower(Traits traits = {}) : traits_(std::move(traits)) {}
  Traits traits() const override { return traits_; }
  Signal signal(const BatchContext& context) override;
  /// Keeps the gradient from above that it is given.
  Lesson learn(const BatchContext& context) override;

  Tensors learned_from = {};

 private:
  Traits traits_;
};

class KeptRecords final : public Sink {
 public:
  void write(const Record& record) override { records.push_back(record); }

  std::vector<Record> records;
};

/// A chain of seats in one thread, with channels in memory that hold all that
/// the tests send.
class SeatChain {
 public:
  /// What a test changes of a seat before it is made.
  using Change = std::function<void(int seat, SeatSettings&, SeatParts&)>;

  /// weights[k-1] of block k, in each of its replicas.
  SeatChain(std::vector<double> weights, const RunPlan& plan,
            const Change& change = {});

  Seat& seat(int number) {
    return *seats_.at(static_cast<std::size_t>(number) - 1);
  }
  double weight(int number) { return only(values_of(seat(number).weights())); }
  double gradient(int number) { return only(seat(number).gradients()); }
  std::vector<double> all_weights();

  void start(const Grant& grant);
  /// Does these actions of the seat, "F0 B0"; `kind` of their exchanges.
  void execute(int number, const char* actions,
               ExchangeKind kind = ExchangeKind::gradients);
  /// Does the actions of the grant: again and again the next one of the first
  /// seat in `order` that needn't wait for a message or for other replicas.
  void run(const Grant& grant, const std::vector<int>& order);

  /// The only number that there is.
  static double only(const Tensors& tensors);

 private:
  RunPlan plan_;
  std::vector<std::unique_ptr<Seat>> seats_;
};

/// The plan of "turns" for these boundaries.
RunPlan plan_of_turns(const std::vector<Traits>& boundaries);

}  // namespace sluice::seats_under_test
