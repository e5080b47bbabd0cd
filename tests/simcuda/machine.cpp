#include "tests/simcuda/machine.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tests/simcuda/report.h"

namespace sluice::simcuda {
namespace {

/// "1", "0,1": one digit each.
std::vector<int> numbers_in_environment() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): it is set before
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> numbers;
  if (text == nullptr) {
    for (int device = 0; device < kDevices; ++device) numbers.push_back(device);
    return numbers;
  }
  for (const char digit : std::string_view(text))
    if (digit >= '0' && digit < '0' + kDevices) numbers.push_back(digit - '0');
  return numbers;
}

const std::vector<int>& host_numbers() {
  static const std::vector<int> numbers = numbers_in_environment();
  return numbers;
}

void check_last_error() {
  const int error = std::exchange(last_error(), 0);
  if (error != 0)
    report(fmt::format("error {} of the CUDA runtime was left behind", error));
}

}  // namespace

Machine& machine() {
  static auto* const one = new Machine;
  return *one;
}

pid_t process_at(std::size_t number) {
  return number == 0 ? ::getpid() : machine().peers.at(number);
}

std::size_t number_of_process(pid_t process) {
  if (process == ::getpid()) return 0;
  auto& peers = machine().peers;
  for (std::size_t number = 1; number < kProcesses; ++number) {
    if (peers.at(number) == 0) peers.at(number) = process;
    if (peers.at(number) == process) return number;
  }
  // No error of CUDA, which knows no such limit.
  throw std::length_error(
      fmt::format("simulated GPU: more than {} processes share memory: raise "
                  "kProcesses in tests/simcuda/clock.h",
                  kProcesses));
}

void forget_processes() {
  Machine& m = machine();
  const Lock lock(m.mutex);
  m.peers = {};
  const auto forget = [](Clock& clock) {
    std::fill(clock.begin() + kStreamsOfProcess, clock.end(), 0);
  };
  std::for_each(m.streams.begin(), m.streams.end(), forget);
  forget(m.host);
}

int visible_devices() {
  return static_cast<int>(host_numbers().size());
}

int host_number(int device) {
  return host_numbers().at(static_cast<std::size_t>(device));
}

int& last_error() {
  thread_local int error = 0;
  return error;
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
  if (capture_of(stream) != nullptr) refuse_in_capture(operation);
  check_last_error();
  check_works(device_of(stream));
  ask_for(device_of(stream));
  Clock& clock = m.streams.at(stream);
  join(clock, m.host);
  return {stream, ++clock.at(stream), std::move(operation)};
}

namespace {

std::int64_t& waits_here() {
  thread_local std::int64_t waits = 0;
  return waits;
}

}  // namespace

void count_wait(std::int64_t Counts::*kind) {
  ++(machine().counts.*kind);
  ++waits_here();
}

std::int64_t waits_of_this_thread() {
  return waits_here();
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
