#include "experiments/runs/measuring/isolated_block.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>

#include "experiments/runs/seats/answer_above.h"
#include "experiments/runs/seats/assembly.h"
#include "lib/base/by_block.h"
#include "lib/base/memory/cached_buffers.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/memory/allocator.h"
#include "lib/metrics/time_spent.h"
#include "lib/tensors/gpu/staged_sender.h"
#include "lib/tensors/pack.h"
#include "lib/workers/trained/vjp.h"

namespace sluice {
namespace {

constexpr auto kUnlimited = std::numeric_limits<std::size_t>::max();
constexpr Deadline kPatience = std::chrono::seconds(60);

/// A message of gradients at tensors like these features.
Message gradients_like(const Tensors& features, const RunPlan& plan, int ways,
                       const Codec* codec) {
  Message message{.kind = MessageKind::gradient};
  for (int way = 0; way < ways; ++way) {
    Tensors zeros;
    for (const at::Tensor& feature : features)
      zeros.push_back(at::zeros_like(feature));
    pack(zeros, gradient_name(static_cast<std::size_t>(way)), codec, message);
  }
  if (plan.model_norm)
    pack({at::scalar_tensor(1.0, at::kDouble)}, "norm", message);
  return message;
}

/// A copy in the host's memory, like a message from another process.
Message copy_of(Message message, const BufferSource& buffers) {
  for (TensorView& tensor : message.tensors) {
    const Buffer from = staged(tensor).buffer;
    if (from.wait_ready) from.wait_ready();
    tensor.buffer = buffers(from.bytes);
    std::memcpy(tensor.buffer.data, from.data, from.bytes);
  }
  return message;
}

/// The activation as an evaluation has it, if its codec has a state: one that
/// can be given to a block again and again.
Message without_state(Message activation, const Experiment& experiment,
                      int block) {
  const BoundaryCodecs codecs = codecs_above(experiment, block);
  const std::unique_ptr<CodecEnd> end =
      codecs.up ? codecs.up->receiver(codec_site(experiment, block)) : nullptr;
  if (end == nullptr) return activation;
  const Tensors features =
      unpack(activation, "h", {codecs.up.get(), end.get(), 0, {}});
  std::erase_if(activation.tensors, [](const TensorView& tensor) {
    return tensor.name.starts_with("h.");
  });
  pack(features, "h", codecs.up.get(), activation);
  return activation;
}

Message norm_message() {
  Message message{.kind = MessageKind::norm};
  pack({at::scalar_tensor(1.0, at::kDouble)}, "norm", message);
  return message;
}

/// Version of the weights with which the lowest block of the segment forwards a
/// batch of a run in lockstep, where a view asks for it.
std::int64_t version_at_entry(const RunPlan& plan, const BlockPlan& block,
                              std::int64_t batch) {
  if (!block.weights.of_entry) return 0;
  const BlockPlan& lowest =
      by_block(plan.blocks, block.block - block.segment.below);
  const bool updates_first = lowest.order == Order::backward_first;
  const std::int64_t applied = batch - lowest.delay + (updates_first ? 1 : 0);
  return std::max<std::int64_t>(applied, 0) / lowest.accumulate;
}

}  // namespace

class IsolatedBlock::CostsOfBlock final : public Sink {
 public:
  void write(const Record& record) override {
    if (const auto block = record.as<records::Block>()) costs = *block;
  }
  records::Block costs;
};

IsolatedBlock::IsolatedBlock(const Experiment& experiment, int block,
                             std::optional<Message> activation)
    : experiment_(experiment),
      block_(block),
      activation_(std::move(activation)),
      buffers_(allocate_buffer),
      sink_(std::make_shared<CostsOfBlock>()) {
  Ends ends{.memory = memory_of_seat(experiment, block)};
  if (allocator_installed()) buffers_ = cached_buffers(ends.memory);
  if (block > 1)
    std::tie(below_, ends.below) =
        memory_link(kUnlimited, kUnlimited, kPatience);
  if (block < experiment.blocks())
    std::tie(ends.above, above_) =
        memory_link(kUnlimited, kUnlimited, kPatience);
  // Nothing is saved here; a seat that may have to save keeps more, as in a
  // run.
  worker_ = make_seat(experiment, block, std::move(ends), sink_,
                      {.checkpoints = "nowhere"});
}

void IsolatedBlock::start() {
  worker_->start({});
}

double IsolatedBlock::act(const Action& action) {
  supply(action);
  const SteadyTime start = std::chrono::steady_clock::now();
  worker_->execute(action);
  const double seconds = seconds_since(start);
  take_away();
  return seconds;
}

void IsolatedBlock::finish() {
  worker_->finish();
}

const records::Block& IsolatedBlock::costs() const {
  return sink_->costs;
}

/// Sends the block the messages that the action waits for.
void IsolatedBlock::supply(const Action& action) {
  const auto& mine = by_block(plan().blocks, block_);
  if (mine.free.inbox_below.buffer && action.op == Op::forward)
    for (; arrived_ < action.arrived; ++arrived_)
      give(*below_.sender, *activation_, arrived_);
  for (const Transfer& need : needs_of(plan(), block_, action)) {
    if (need.kind == MessageKind::activation) {
      activation_->weight_version = version_at_entry(plan(), mine, need.batch);
      give(*below_.sender, *activation_, need.batch, need.round);
    } else if (need.kind == MessageKind::gradient)
      give(*above_.sender, gradient(), need.batch, need.round);
    else
      give(*below_.sender, norm_message(), need.batch);
  }
}

void IsolatedBlock::give(Sender& to, const Message& message, std::int64_t batch,
                         std::int64_t round) const {
  Message given = copy_of(message, buffers_);
  given.batch = batch;
  given.round = round;
  to.send(std::move(given));
}

const Message& IsolatedBlock::gradient() {
  if (gradient_.tensors.empty()) {
    const BlockPlan& above = by_block(plan().blocks, block_ + 1);
    const BoundaryCodecs codecs = codecs_above(experiment_, block_);
    const Tensors features = unpack(*sent_up_, "h", codecs.up.get());
    gradient_ = gradients_like(features, plan(), above.gradients.leaving,
                               codecs.down.get());
    if (above.answers())
      pack(answer_above(experiment_, block_), kAnswer, gradient_);
    if (above.gradients.returns_input) pack(features, kReturned, gradient_);
    if (experiment_.assist.is_on())
      pack({at::zeros({features.front().size(0)}, at::kDouble)}, kLosses,
           gradient_);
  }
  return gradient_;
}

void IsolatedBlock::take_away() {
  while (below_.receiver && below_.receiver->ready())
    below_.receiver->receive();
  while (above_.receiver && above_.receiver->ready()) {
    std::optional<Message> message = above_.receiver->receive();
    if (!sent_up_ && message->kind == MessageKind::activation)
      sent_up_ = without_state(copy_of(*message, allocate_buffer), experiment_,
                               block_);
  }
}

}  // namespace sluice
