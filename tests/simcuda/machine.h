#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/simcuda/capture.h"
#include "tests/simcuda/clock.h"
#include "tests/simcuda/contexts.h"
#include "tests/simcuda/device_memory.h"
#include "tests/simcuda/pinned_memory.h"
#include "tests/simcuda/simcuda.h"

namespace sluice::simcuda {

/// The devices and what the host knows of them. LibTorch calls the simulation
/// through objects that it registers before main(), so there is one for the
/// process; every use of it holds the lock.
struct Machine {
  std::recursive_mutex mutex;
  std::array<Arena, kDevices> arenas;
  std::map<const std::byte*, Allocation> allocations;  ///< by their start
  std::map<const std::byte*, PinnedBlock> pinned;      ///< by their start
  std::vector<CopyToDevice> to_device;                 ///< not seen to be done
  std::vector<CopyToHost> to_host;                     ///< likewise
  std::map<std::size_t, Capture*> captures;  ///< under way, by their stream
  std::array<Clock, kStreamsOfProcess> streams = {};  ///< of this process
  std::array<pid_t, kProcesses> peers = {};           ///< others, from number 1
  Clock host = {};
  std::array<int, kDevices> last_of_pool = {};
  std::uint64_t last_event = 0;
  Contexts contexts;
  std::array<bool, kDevices> broken = {};
  Counts counts;
  std::vector<std::string> reports;
  bool collects_reports = false;
};

using Lock = std::lock_guard<std::recursive_mutex>;

/// Lives until the process ends: tensors in static objects are released last.
Machine& machine();

/// The process of that number; 0: none.
pid_t process_at(std::size_t number);
/// The other way round; one that is new gets the next number. Throws
/// std::length_error when there are too many.
std::size_t number_of_process(pid_t process);

// CUDA_VISIBLE_DEVICES says which of the host's devices this process has.
int visible_devices();
int host_number(int device);

/// Error of the thread's last call of the CUDA runtime; 0: none. One that is
/// left behind is reported at the next operation, where LibTorch would find it.
int& last_error();

// As in CUDA, each thread has a current device and, of each, a current stream.
int& current_device();
int& current_stream(int device);
/// The number of the current stream of the device.
std::size_t computing_on(int device);

/// The next operation of a stream. It comes after all that the host has waited
/// for. Throws where the stream is captured.
Use start(std::size_t stream, std::string operation);

/// Counts a wait of the host.
void count_wait(std::int64_t Counts::*kind);

/// The host has waited for what `clock` knows: copies of it are done.
void host_reaches(const Clock& clock);

}  // namespace sluice::simcuda
