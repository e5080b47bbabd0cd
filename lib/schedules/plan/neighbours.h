#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
#include "lib/schedules/plan/plan.h"

namespace sluice {

// Which seats have messages with each other. Where all blocks have as many
// replicas, these are the seats of one replica that follow each other; where
// they haven't, each batch has its own (MicroBatches::replica_with()).

enum class Direction : std::uint8_t { below, above };

/// The seat of a replica of a block, which has that many.
int seat_of(const RunPlan& plan, int block, int replica);
/// How many replicas the block has.
int replicas_of(const RunPlan& plan, int block);

/// The seat on that side, where there is a block, with which the seat has a
/// message of that kind for that batch.
int neighbour_with(const RunPlan& plan, int seat, Direction side,
                   MessageKind kind, std::int64_t batch);
/// Seats that the seat's batches of a turn come from or go to, in the order of
/// the batches; a seat may come several times. Empty where there is no block on
/// that side.
std::vector<int> neighbours_in_turn(const RunPlan& plan, int seat,
                                    Direction side);
/// Seats of neighbours_in_turn(), each once, ascending.
std::vector<int> neighbours_of(const RunPlan& plan, int seat, Direction side);

/// A link between two seats of neighbouring blocks.
struct SeatPair {
  int lower = 0;  ///< of the lower block; its number may be the higher one
  int upper = 0;

  auto operator<=>(const SeatPair&) const = default;  // NOLINT
};

/// All links by number, from 1: number n at index n-1. Where all blocks have
/// as many replicas, link s is between seats s and s + 1; that between the last
/// block of a replica and the first of the next is never used.
std::vector<SeatPair> links_of(const RunPlan& plan);
/// The number of the link between two seats, which have one.
int link_between(const RunPlan& plan, const SeatPair& seats);

/// neighbour_with() for one seat, without the seat's plan.
class Neighbours {
 public:
  Neighbours(const RunPlan& plan, int seat);
  int below(MessageKind kind, std::int64_t batch) const {
    return of(below_, kind, batch);
  }
  int above(MessageKind kind, std::int64_t batch) const {
    return of(above_, kind, batch);
  }

 private:
  int of(const std::vector<int>& side, MessageKind kind,
         std::int64_t batch) const;

  std::vector<int> below_;  // by batch of a turn; one: of all
  std::vector<int> above_;
};

}  // namespace sluice
