#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/blocks/block.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/workers/coded_boundary.h"
#include "lib/workers/model_norm.h"
#include "lib/workers/payloads.h"
#include "lib/workers/ports.h"
#include "lib/workers/seat_log.h"
#include "lib/workers/seat_parts.h"
#include "lib/workers/seat_plan.h"
#include "lib/workers/sent_payloads.h"

namespace sluice {

/// What a seat refers to for its messages; all of it outlives them.
struct MessagesSite {
  const SeatPlan& place;
  const SeatSettings& settings;
  const SeatProgress& progress;
  const Block& block;
  Ports& ports;
  SeatLog& log;
  ModelNorm& norm;
};

/// What a seat takes from its sources and neighbours, and what it gives them:
/// payloads to messages and back, through the codecs of its boundaries. Used by
/// the seat's thread. Waits and throws as Ports does.
class SeatMessages {
 public:
  /// Takes codecs and sources out of the parts.
  SeatMessages(const MessagesSite& site, SeatParts& parts);

  /// A message of the action, without tensors.
  Message message_of(MessageKind kind, const Action& action) const;

  /// The batch of training with that number, from the source.
  Payload read_training(std::int64_t batch) const;
  /// The batch of a forward, in whose record it leaves what the source learned.
  Payload read_training(const Action& forward) const;
  Payload input(const Action& forward);
  Payload evaluation_input(const Action& evaluate);
  /// The activation that a lesson of the upper end takes, or a later visit.
  Payload lesson_input(const Action& action);
  Payload input_again(const Action& visit);
  void send_up(Message message, const Tensors& outputs, const Payload& fed);
  /// Sends what the lower end publishes in a later visit.
  void send_up_again(Message message, const Tensors& published,
                     const at::Tensor& labels);

  /// Takes the gradient message of the action's batch and that round.
  DownPayload from_above(const Action& action, std::int64_t round = 0);
  /// Whether the losses of the last block come down with the gradients: to the
  /// source, or to the replicas of each block, which choose the best one by
  /// them.
  bool brings_losses() const;
  /// Gives the losses to the source of block 1 that asks for them, and adds its
  /// figures.
  void give_losses(const Action& action, const at::Tensor& losses,
                   Figures& figures);
  /// The codec of activations from below, if there is one.
  const Codec* codec_below() const { return coded_below_.up(); }
  void send_down(const Action& action, const DownPayload& down);

  /// Sends again, of what may be under way, these batches, or all.
  void send_again(const std::vector<std::int64_t>& batches);
  void send_all_again();
  void forget_sent() { sent_down_ = {}; }
  std::int64_t bytes() const;
  /// Bytes of training that went to the neighbours since the process began.
  std::int64_t sent_up_bytes() const { return sent_up_bytes_; }
  std::int64_t sent_down_bytes() const { return sent_down_bytes_; }

  // For a checkpoint: what went down, what codecs remember, and the source.
  void save_sent(NamedTensors& all) const;
  void restore_sent(const SavedState& saved);
  void save_codecs(NamedTensors& all) const;
  void restore_codecs(const NamedTensors& state);
  void save_source(NamedTensors& all) const;
  void restore_source(const NamedTensors& state, std::string_view from);

 private:
  void give_above(Message message);
  const BlockPlan& plan() const { return site_.place.plan(); }
  const c10::Device& device() const { return site_.block.device(); }
  Payload payload_of(const Batch& data) const;
  Payload from_below(const Action& action, const Coding& coding);
  std::int64_t slot_of(std::int64_t batch) const;
  void send_down(const Action& action, const DownPayload& down,
                 const Coding& coding);
  DownPayload to_send_again(const DownPayload& down,
                            const Message& message) const;
  std::int64_t under_way_below() const;
  std::vector<std::int64_t> sent_in(const SavedState& saved) const;
  std::vector<std::int64_t> awaited_below(const SavedState& saved) const;

  MessagesSite site_;
  CodedBoundary coded_below_;
  CodedBoundary coded_above_;
  Sources sources_;
  SentPayloads sent_down_;
  std::int64_t sent_up_bytes_ = 0;
  std::int64_t sent_down_bytes_ = 0;
};

}  // namespace sluice
