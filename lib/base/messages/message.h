#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string_view>
#include <vector>

#include "lib/base/buffer.h"

namespace sluice {

/// What a message is about; the values are the wire's.
enum class MessageKind : std::uint8_t {
  activation = 1,  ///< up: h_k and labels of a training batch
  gradient = 2,    ///< down: gradient at h_k of a training batch
  evaluation = 3,  ///< up: h_k and labels of an evaluation batch
  norm = 4,        ///< up: the whole model's gradient norm (clip.scope = model)
  grant = 5,       ///< coordinator -> worker: turns to run, and decisions
  record = 6,      ///< worker -> coordinator: a metric record
  reached = 7,     ///< worker -> coordinator: a grant was carried out
  failure = 8,     ///< worker -> coordinator: why it stops
  observation = 9,  ///< worker -> coordinator: what a probe shall see
  progress = 10,    ///< worker -> coordinator: that it lives, and how far it is
  clock = 11,       ///< coordinator -> worker: what is the time? And the answer
  exchange = 12,    ///< between replicas: what they exchange
  newcomer = 13,  ///< coordinator -> worker: a replica joins; back: it doesn't
  centre = 14,    ///< coordinator -> worker: what its centre is to know
};

std::string_view name_of(MessageKind kind);
bool is_message_kind(std::uint8_t value);

inline constexpr std::int64_t kMostRounds = 65535;

/// A header and named tensors. Moves are cheap; copies share the buffers.
struct Message {
  MessageKind kind = MessageKind::activation;
  /// Training or evaluation batch, or the turn for control messages.
  std::int64_t batch = 0;
  /// Turn of the sender when it sent the message.
  std::int64_t turn = 0;
  /// Version of the weights of the sender's block that made the tensors: of an
  /// activation those of its forward, which a weight view may choose.
  std::int64_t weight_version = 0;
  /// Index of the visit of the batch, from 0; at most kMostRounds.
  std::int64_t round = 0;
  std::vector<TensorView> tensors = {};
  /// Time at which the message came to the receiving process, by that process's
  /// clock; its channel sets it.
  std::chrono::steady_clock::time_point arrived = {};
};

/// Bytes of all tensors.
std::size_t payload_bytes(const Message& message);
std::size_t payload_bytes(const std::deque<Message>& messages);

}  // namespace sluice
