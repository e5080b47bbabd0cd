#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace sluice {

/// A kind of step of a block. The op's row in op_table.h says what it needs and
/// leaves. The order of the ops is part of the keys of the virtual clock's
/// jitter: new ones come last.
enum class Op : std::uint8_t {
  forward,           ///< F: forward a training batch, send it up
  backward,          ///< B: take the gradient of a batch, send the rest down
  update,            ///< U: optimizer step with the gradients of a window
  evaluate,          ///< E: forward an evaluation batch
  learn,             ///< L: the lower end (a synthesizer) learns from a batch
  save,              ///< C: save the block; `batch` is the number of turns done
  learn_input,       ///< I: the upper end (an input model) learns from a batch
  backward_input,    ///< D: the half of a backward that goes down
  backward_weights,  ///< W: the other half, the gradient of the weights
  exchange,          ///< X: publish to the other replicas of the block
  settle             ///< S: take what all of them have published
};

inline constexpr std::size_t kOps = 11;

/// A kind of exchange between the replicas of a block: what an exchange
/// publishes and its settle takes. Its row is in exchange_table.h. Which of the
/// first four a window of the block has, its plan says
/// (ReplicaExchange::of_window()).
enum class ExchangeKind : std::uint8_t {
  none,          ///< of the other ops
  gradients,     ///< of a window, to all
  weights,       ///< after an update, or before it, to all
  peers,         ///< gradients or weights, to some
  push,          ///< to the centre, which gives weights
  second,        ///< gradients once more (ReplicaExchange::rounds)
  gather,        ///< parts of the weights, each updated by one replica
  adoption,      ///< whole replicas, of which all adopt the best
  pull,          ///< what a centre made of several pushes: a settle alone
  agreement,     ///< what evaluations and checkpoints take
  lesson,        ///< gradients of the lower end above the block
  input_lesson,  ///< gradients of the upper end below it
  entry          ///< what a replica that joins begins with, from the centre
};

inline constexpr std::size_t kExchanges = 13;

/// Name of an op for people and traces: "learn input".
std::string_view name_of(Op op);

/// A value for each op.
template <class T>
class OpValues {
 public:
  OpValues() = default;
  OpValues(std::initializer_list<std::pair<Op, T>> values) {
    for (const auto& [op, value] : values) (*this)[op] = value;
  }

  T& operator[](Op op) { return values_[static_cast<std::size_t>(op)]; }
  const T& operator[](Op op) const {
    return values_[static_cast<std::size_t>(op)];
  }
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

  bool operator==(const OpValues&) const = default;

 private:
  std::array<T, kOps> values_ = {};
};

}  // namespace sluice
