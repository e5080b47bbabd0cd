#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/boundaries/boundary.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/metrics/memory_use.h"
#include "lib/schedules/plan/ledger.h"
#include "lib/weights/weight_view.h"
#include "lib/workers/trained/vjp.h"

namespace sluice {

/// A batch between its backward and the lesson that an end takes from it.
struct PendingLesson {
  Tensors features = {};
  at::Tensor labels = {};
  Tensors from_above = {};  ///< if backward has taken it
  Pass pass = {};
  Tensors answer = {};  ///< of the upper end, if backward has taken it
  Attachments attachments = {};
};

/// A backward: what its signal is, before it is taken back.
struct PendingBackward {
  Flight flight;
  Graph graph = {};
  std::vector<Pull> pulls = {};
  std::vector<SplitBackward> halves = {};  ///< between the two of a backward
  Signal signal = {};
  Tensors parameters = {};  ///< of the visits so far: gradients of the block's
  PendingLesson lesson = {};
  Tensors forward_weights = {};  ///< where a correction wants them
  at::Tensor losses = {};        ///< DownPayload::losses
};

/// What a block holds of the batches that its ledger has marked.
struct BatchesInFlight {
  std::map<std::int64_t, Flight> flights = {};          ///< Mark::in_flight
  std::map<std::int64_t, PendingLesson> lessons = {};   ///< Mark::lesson
  std::map<std::int64_t, PendingBackward> halves = {};  ///< Mark::halved

  bool empty() const;
  /// Whether a batch was forwarded with that version of the weights, and has
  /// not been applied.
  bool have_version(std::int64_t version) const;
  std::size_t graphs() const;
  /// Takers of what is held of a batch, which must be there, out of its map.
  Flight take_flight(std::int64_t batch);
  PendingLesson take_lesson(std::int64_t batch);
  PendingBackward take_half(std::int64_t batch);

  /// Memory of what is kept; a graph whose batch is no flight any more counts
  /// too.
  MemoryUse memory(const WeightView& view, std::int64_t other_graphs) const;
  /// Sets the marks of these batches in the ledger.
  void mark_in(Ledger& ledger) const;
  /// Throws InternalError unless there is what the ledger has marked: a
  /// checkpoint of another turn or schedule has other batches.
  void check_against(const Ledger& ledger, int block) const;

  /// As "flights.<k>.<batch>.*" and "lessons.<k>.<batch>.*". Throws
  /// InternalError between two halves of a backward: no checkpoint is taken
  /// there.
  void save(int block, const WeightView& view, NamedTensors& all) const;
  void restore(int block, const SavedState& saved, const BlockPlan& plan,
               const c10::Device& device, WeightView& view,
               const std::function<Pass(std::int64_t batch)>& pass_for);
};

}  // namespace sluice
