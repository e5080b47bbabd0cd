#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lib/schedules/plan/plan.h"

namespace sluice {

static_assert(std::endian::native == std::endian::little);

// Encoding of the structs that are sent over control links: the fields, one
// after the other. A number, a truth value or an enum takes 8 bytes
// (little-endian), a text its length and itself, an optional field a truth
// value before it. There is no version: all processes of a run are of one
// build.

/// Kind of error that stopped a worker.
enum class Cause : std::uint8_t {
  own,       ///< the worker itself
  link,      ///< one of its links broke
  peer_gone  ///< another worker is gone, which failed first
};

/// Failure of a worker. When several fail, the one with the smallest Cause
/// explains the others.
struct Failure {
  int block = 0;  ///< not sent: known from the link
  Cause cause = Cause::own;
  std::string text = {};
};

/// Progress of a worker, in a message of kind `progress`.
struct Progress {
  std::int64_t moves = -1;  ///< a counter
  int waits_for = -1;       ///< a block, or kNobody and the like
  std::int64_t turn = -1;
  int action = -1;  ///< a number of Op; -1: none yet
};

/// Header of a message of kind `newcomer`: the replica waits there for the
/// seats of replica 1.
struct Newcomer {
  int replica = 2;
  std::string address = {};
  /// Counts the replicas that come to that place, from 1.
  std::int64_t life = 1;
};

/// Header of a message of kind `centre`, for the centre beside the worker.
struct CentreNotice {
  /// The replica is taken out, whether its processes have ended or not. 0: none
  /// is; all replicas wait, each for another.
  int lost = 0;
  std::int64_t life = 0;  ///< Newcomer::life; 0: it was there from the start
};

/// Header of a message of kind `observation`, whose tensors are weights before
/// a turn or, when `batch` is set, the gradients that were applied.
struct Observation {
  int block = 0;
  int replica = 1;
  std::int64_t phase = 0;
  std::int64_t turn = 0;
  std::optional<std::int64_t> batch = {};
  std::int64_t source_batch = 0;  ///< Application's, as what follows
  bool exchanged = false;
};

/// The answer of a message of kind `clock`.
struct ClockAnswer {
  double time = 0;  ///< steady_seconds()
};

namespace control {

template <class T, class Of>
concept Is = std::is_same_v<std::remove_const_t<T>, Of>;

auto fields_of(Is<Grant> auto& said) {
  return std::tie(said.first_turn, said.end_turn, said.phase, said.first_batch,
                  said.drain, said.evaluation_batches, said.checkpoint,
                  said.finish, said.part, said.joins);
}
auto fields_of(Is<Failure> auto& said) {
  return std::tie(said.cause, said.text);
}
auto fields_of(Is<Progress> auto& said) {
  return std::tie(said.moves, said.waits_for, said.turn, said.action);
}
auto fields_of(Is<Observation> auto& said) {
  return std::tie(said.block, said.replica, said.phase, said.turn, said.batch,
                  said.source_batch, said.exchanged);
}
auto fields_of(Is<Newcomer> auto& said) {
  return std::tie(said.replica, said.address, said.life);
}
auto fields_of(Is<CentreNotice> auto& said) {
  return std::tie(said.lost, said.life);
}
auto fields_of(Is<ClockAnswer> auto& said) {
  return std::tie(said.time);
}

// Whether a word is one of the enumerators.
constexpr bool is_one(std::int64_t word, TurnPart) {
  return word >= 0 && word <= static_cast<std::int64_t>(TurnPart::rest);
}
constexpr bool is_one(std::int64_t word, Cause) {
  return word >= 0 && word <= static_cast<std::int64_t>(Cause::peer_gone);
}
constexpr bool is_one(std::int64_t word, bool) {
  return word == 0 || word == 1;
}
constexpr bool is_one(std::int64_t word, int) {
  return std::in_range<int>(word);
}
constexpr bool is_one(std::int64_t, std::int64_t) {
  return true;
}

template <class T>
void put(std::string& bytes, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    put(bytes, static_cast<std::int64_t>(value.size()));
    bytes += value;
  } else if constexpr (requires { value.has_value(); }) {
    put(bytes, value.has_value());
    if (value) put(bytes, *value);
  } else if constexpr (std::is_same_v<T, double>) {
    put(bytes, std::bit_cast<std::int64_t>(value));
  } else {
    const auto word = static_cast<std::int64_t>(value);
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
}

/// Takes a value off the bytes; false when they don't begin with one.
template <class T>
bool take(std::string_view& bytes, T& to) {
  if constexpr (std::is_same_v<T, std::string>) {
    std::int64_t size = 0;
    if (!take(bytes, size) || !std::in_range<std::size_t>(size) ||
        static_cast<std::size_t>(size) > bytes.size())
      return false;
    to = bytes.substr(0, static_cast<std::size_t>(size));
    bytes.remove_prefix(to.size());
  } else if constexpr (requires { to.has_value(); }) {
    bool is_there = false;
    return take(bytes, is_there) && (!is_there || take(bytes, to.emplace()));
  } else if constexpr (std::is_same_v<T, double>) {
    std::int64_t word = 0;
    if (!take(bytes, word)) return false;
    to = std::bit_cast<double>(word);
  } else {
    std::int64_t word = 0;
    if (bytes.size() < sizeof word) return false;
    std::memcpy(&word, bytes.data(), sizeof word);
    bytes.remove_prefix(sizeof word);
    if (!is_one(word, to)) return false;
    to = static_cast<T>(word);
  }
  return true;
}

template <class T>
std::string encoded(const T& said) {
  std::string bytes;
  std::apply([&](const auto&... field) { (put(bytes, field), ...); },
             fields_of(said));
  return bytes;
}

/// Decodes a struct; nothing unless the bytes are exactly one T.
template <class T>
std::optional<T> decoded(std::string_view bytes) {
  T said;
  const bool is_whole =
      std::apply([&](auto&... field) { return (take(bytes, field) && ...); },
                 fields_of(said));
  return is_whole && bytes.empty() ? std::optional(said) : std::nullopt;
}

}  // namespace control
}  // namespace sluice
