#pragma once

#include <array>
#include <cstdint>
#include <string>

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

namespace sluice::simcuda {

constexpr auto kCuda = c10::DeviceType::CUDA;
constexpr int kDevices = 2;
constexpr int kStreams = 1 + 16;  ///< of a device: the default one and a pool

constexpr std::size_t kStreamsOfProcess = std::size_t{kDevices} * kStreams;
/// This one, number 0, and those that it shares memory with by CUDA IPC.
constexpr std::size_t kProcesses = 10;

/// A vector clock: for each stream, how many of its operations are known to be
/// done. Streams of all processes and devices are numbered in one row.
using Clock = std::array<std::uint64_t, kProcesses * kStreamsOfProcess>;

/// After it `clock` also knows what `other` knows.
void join(Clock& clock, const Clock& other);

std::size_t number_of(int device, int stream);
std::size_t number_of(const c10::Stream& stream);
int device_of(std::size_t stream);
std::string name_of(std::size_t stream);

/// One operation that uses memory.
struct Use {
  std::size_t stream = 0;
  std::uint64_t time = 0;  ///< 0: there was none
  std::string operation = {};
};

/// Whether `clock` knows that it is done.
bool is_before(const Use& use, const Clock& clock);

}  // namespace sluice::simcuda
