#include "lib/workers/seat.h"

#include <optional>
#include <utility>

#include "lib/base/error.h"
#include "lib/memory/allocator.h"
#include "lib/schedules/plan/op.h"
#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/gpu/out_of_memory.h"
#include "lib/tensors/precision.h"

namespace sluice {
namespace {

/// Whether it computes layers: updates and exchanges are made in full
/// precision, whoever makes them.
bool computes_layers(Op op) {
  return op != Op::update && op != Op::exchange && op != Op::settle &&
         op != Op::save;
}

}  // namespace

Seat::Seat(int seat, SeatSettings settings, SeatParts parts)
    : memory_(std::move(parts.memory)),
      core_(seat, std::move(settings), std::move(parts)) {}

void Seat::execute(const Action& action) {
  const CurrentDevice on(device());  // seats of one thread may have several
  try {
    measure(action);
  } catch (const c10::Error& error) {
    if (is_out_of_gpu_memory(error))
      throw out_of_gpu_memory(core_.place.name(), device(), error);
    throw;
  }
}

void Seat::measure(const Action& action) {
  core_.watched.before(action);
  core_.timeline.begins(action);
  core_.clock.measure(action.op, [&] { perform(action); });
  core_.timeline.ends(action, core_.plan().staleness_of(action),
                      core_.ports.below(), core_.ports.above());
  if (core_.settings.status) write_status(action);
  core_.watched.tell();
}

void Seat::write_status(const Action& action) {
  constexpr double kPeriod = 1;  // s
  if (seconds_since(status_written_) < kPeriod) return;
  status_written_ = std::chrono::steady_clock::now();
  core_.log.status(action, core_.clock.spent().waiting, core_.ports.below(),
                   core_.ports.above());
}

void Seat::perform(const Action& action) {
  std::optional<MemoryScope> memory;
  if (memory_) memory.emplace(*memory_);
  const PrecisionScope precision(computes_layers(action.op)
                                     ? core_.settings.options.precision
                                     : Precision::fp32,
                                 device().type());
  core_.enter(action.phase, action.turn);
  core_.progress.served_as = 0;
  SLUICE_CHECK(core_.ledger.may(action), "{} ({}) lacks {}", core_.place.name(),
               to_text(action), core_.ledger.lacks(action));
  op_of(core_.plan(), action.op)(core_, action);
  core_.ledger.did(core_.plan(), action);
}

void Seat::start(const Grant& first) {
  const CurrentDevice on(device());
  start_seat(core_, first);
}

records::Block Seat::costs() const {
  const SpentTime& spent = core_.clock.spent();
  records::Block block{
      .block = this->block(),
      .replica = replica_of(core_.plan()),
      .parameters = core_.trained.elements(),
      .forward_s = spent.of(Op::forward),
      .backward_s = spent.of(Op::backward) + spent.of(Op::backward_input) +
                    spent.of(Op::backward_weights),
      .update_s = spent.of(Op::update),
      .learn_s = spent.of(Op::learn) + spent.of(Op::learn_input),
      .evaluate_s = spent.of(Op::evaluate),
      .waiting_s = spent.waiting,
      .memory = {.weights_bytes = bytes_of(values_of(weights())),
                 .optimizer_bytes = bytes_of(values_of(core_.trained.state())),
                 .stash_bytes = core_.memory_use.stash,
                 .history_bytes = core_.memory_use.history,
                 .queue_bytes = core_.memory_use.queue,
                 .centre_bytes = core_.replicas.centre_bytes()},
      .compressed_bytes = core_.replicas.compressed_bytes()};
  if (core_.messages.sent_up_bytes() > 0)
    block.up_bytes = core_.messages.sent_up_bytes();
  if (core_.messages.sent_down_bytes() > 0)
    block.down_bytes = core_.messages.sent_down_bytes();
  if (core_.plan().exchange.quorum.is_there()) {
    core_.late.add_to(block);
    block.awaited_s = core_.replicas.awaited();
  }
  if (memory_ && allocator_installed()) {
    block.memory.graph_bytes = core_.memory_use.graph;
    block.memory.peak_bytes = static_cast<std::int64_t>(memory_->peak_bytes());
  }
  return block;
}

void Seat::finish() {
  const CurrentDevice on(device());
  core_.clock.collect();
  core_.log.settle();
  core_.log.write(costs());
  core_.log.staleness();
  if (core_.plan().free.inbox_above.drops())
    core_.log.dropped(core_.ports.dropped());
  // What was learned after the last update. The record is about the turn that
  // would be next, so that a resume from before it forgets it.
  const std::int64_t next = core_.progress.last_turn + 1;
  if (core_.settings.options.hashes)
    core_.log.hashed(
        {.batch = core_.plan().micro_batches.first_of(next), .turn = next}, {},
        weights());
  core_.replicas.finish();
  core_.ports.close();
}

}  // namespace sluice
