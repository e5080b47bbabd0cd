#include "tests/simcuda/clock.h"

#include <algorithm>

#include <fmt/format.h>

namespace sluice::simcuda {

void join(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

std::size_t number_of(int device, int stream) {
  return static_cast<std::size_t>(device) * kStreams +
         static_cast<std::size_t>(stream);
}

std::size_t number_of(const c10::Stream& stream) {
  return number_of(stream.device_index(), static_cast<int>(stream.id()));
}

int device_of(std::size_t stream) {
  return static_cast<int>(stream % kStreamsOfProcess / kStreams);
}

std::string name_of(std::size_t stream) {
  return fmt::format("stream {} of cuda:{}{}", stream % kStreams,
                     device_of(stream),
                     stream < kStreamsOfProcess ? "" : " of another process");
}

bool is_before(const Use& use, const Clock& clock) {
  return use.time == 0 || clock.at(use.stream) >= use.time;
}

}  // namespace sluice::simcuda
