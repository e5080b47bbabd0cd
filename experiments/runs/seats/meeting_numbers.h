#pragma once

#include <cstdint>
#include <utility>

#include "lib/schedules/replicas/replicas.h"
#include "transport/meeting/rendezvous.h"

namespace sluice {

/// Numbers of seats at the rendezvous where a replica joins a run: its own come
/// first, those of replica 1 after these, both by block.
class MeetingNumbers {
 public:
  MeetingNumbers(SeatNames names, int newcomer)
      : names_(std::move(names)), newcomer_(newcomer) {}

  std::uint32_t of(int seat) const {
    const int before = names_.replica_of(seat) == newcomer_ ? 0 : names_.depth;
    return static_cast<std::uint32_t>(before + names_.block_of(seat));
  }
  int seat_of(std::uint32_t number) const {
    const int at = static_cast<int>(number);
    return at > names_.depth ? at - names_.depth
                             : (newcomer_ - 1) * names_.depth + at;
  }
  void set_in(RendezvousOptions& options) const {
    options.blocks = 2 * static_cast<std::uint32_t>(names_.depth);
    options.name = [numbers = *this](std::uint32_t number) {
      return number == 0 || number > 2 * static_cast<std::uint32_t>(
                                             numbers.names_.depth)
                 ? block_name(number)
                 : numbers.names_.of(numbers.seat_of(number));
    };
  }

 private:
  SeatNames names_;
  int newcomer_;
};

}  // namespace sluice
