#include "tests/simcuda/machine.h"

#include <utility>

namespace sluice::simcuda {

Machine& machine() {
  static auto* const one = new Machine;
  return *one;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

int& current_stream(int device) {
  thread_local std::array<int, kDevices> streams = {};
  return streams.at(static_cast<std::size_t>(device));
}

std::size_t computing_on(int device) {
  return number_of(device, current_stream(device));
}

Use start(std::size_t stream, std::string operation) {
  Machine& m = machine();
  check_works(device_of(stream));
  ask_for(device_of(stream));
  Clock& clock = m.streams.at(stream);
  join(clock, m.host);
  return {stream, ++clock.at(stream), std::move(operation)};
}

void host_reaches(const Clock& clock) {
  Machine& m = machine();
  join(m.host, clock);
  finish_copies_to_device(
      [&](const CopyToDevice& copy) { return is_before(copy.use, m.host); });
  finish_copies_to_host(
      [&](const CopyToHost& copy) { return is_before(copy.use, m.host); });
}

}  // namespace sluice::simcuda
