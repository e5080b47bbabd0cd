#include "tests/simcuda/device_memory.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/report.h"
#include "tests/simcuda/runtime/shared_block.h"

namespace sluice::simcuda {
namespace {

void report_conflict(const Use& now, std::string_view does, const Use& before,
                     std::string_view did) {
  report(fmt::format("{} in {} {} what {} in {} {}, and nothing orders them",
                     now.operation, name_of(now.stream), does, before.operation,
                     name_of(before.stream), did));
}

std::byte* bytes_at(const std::byte* address) {
  return bytes_at(*find_allocation(address), address);
}

bool is_in(const Allocation& allocation, const std::byte* address) {
  return address >= allocation.data &&
         address < allocation.data + allocation.bytes;
}

}  // namespace

Allocation* find_allocation(const void* address) {
  Machine& m = machine();
  const auto* const at = static_cast<const std::byte*>(address);
  auto found = m.allocations.upper_bound(at);
  if (found == m.allocations.begin()) return nullptr;
  --found;
  return is_in(found->second, at) ? &found->second : nullptr;
}

std::byte* bytes_at(const Allocation& allocation, const void* address) {
  if (allocation.mapped != nullptr)
    return allocation.mapped +
           (static_cast<const std::byte*>(address) - allocation.data);
  return machine()
      .arenas.at(static_cast<std::size_t>(allocation.device))
      .bytes_at(static_cast<const std::byte*>(address));
}

std::byte* operands_at(const Allocation& allocation, const void* address) {
  Capture* const capture = capture_here(allocation.device);
  if (capture == nullptr) return bytes_at(allocation, address);
  return capture->bytes_of(allocation) +
         (static_cast<const std::byte*>(address) - allocation.data);
}

void finish_copies_into(const Allocation& allocation) {
  finish_copies_to_device(
      [&](const CopyToDevice& copy) { return is_in(allocation, copy.to); });
}

void read(Allocation& allocation, const Use& use) {
  if (use.time == 0) return;
  const UsesOfAll uses(allocation);
  if (!is_before(allocation.written, machine().streams.at(use.stream)))
    report_conflict(use, "reads", allocation.written, "writes");
  finish_copies_into(allocation);
  allocation.read[use.stream] = use;
}

void write(Allocation& allocation, const Use& use) {
  if (use.time == 0) return;
  const UsesOfAll uses(allocation);
  const Clock& clock = machine().streams.at(use.stream);
  if (!is_before(allocation.written, clock))
    report_conflict(use, "writes", allocation.written, "writes");
  for (const auto& [stream, before] : allocation.read)
    if (!is_before(before, clock))
      report_conflict(use, "writes", before, "reads");
  finish_copies_into(allocation);
  allocation.written = use;
  allocation.read.clear();
}

void finish_copies_to_device(
    const std::function<bool(const CopyToDevice&)>& is_wanted) {
  std::erase_if(machine().to_device, [&](const CopyToDevice& copy) {
    if (!is_wanted(copy)) return false;
    std::memcpy(bytes_at(copy.to), copy.from, copy.bytes);
    return true;
  });
}

namespace {

/// The next owner uses the memory in the stream in which it was allocated, at
/// once.
void check_release(const Allocation& allocation, const Use& use) {
  const Machine& m = machine();
  if (use.stream == allocation.stream ||
      allocation.recorded.contains(use.stream) ||
      is_before(use, m.streams.at(allocation.stream)) || is_before(use, m.host))
    return;
  report(fmt::format(
      "memory of {} is released while {} in {} may still use it: "
      "record_stream() is missing",
      name_of(allocation.stream), use.operation, name_of(use.stream)));
}

void check_releases(const Allocation& allocation) {
  // What a graph had is given back to the device, which waits for it.
  if (allocation.graph != nullptr) return;
  check_release(allocation, allocation.written);
  for (const auto& [stream, use] : allocation.read)
    check_release(allocation, use);
}

void release(void* data) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.allocations.find(static_cast<std::byte*>(data));
  if (found == m.allocations.end()) return;
  const Allocation& allocation = found->second;
  if (allocation.graph != nullptr && allocation.graph->is_kept) {
    allocation.graph->released.emplace(allocation.bytes, allocation.data);
    return;
  }
  check_releases(allocation);
  std::erase_if(m.to_device, [&](const CopyToDevice& copy) {
    return is_in(allocation, copy.to);
  });
  std::memset(bytes_at(allocation, data), kPoison, allocation.bytes);
  m.counts.live_bytes -= static_cast<std::int64_t>(allocation.bytes);
  m.arenas.at(static_cast<std::size_t>(allocation.device))
      .release(allocation.data, allocation.bytes);
  m.allocations.erase(found);
}

}  // namespace

void release_memory(GraphMemory& memory) {
  memory.is_kept = false;
  for (const auto& [bytes, data] : memory.released) release(data);
  memory.released.clear();
}

namespace {

void count_allocation(std::size_t bytes) {
  Counts& counts = machine().counts;
  ++counts.allocations;
  counts.live_bytes += static_cast<std::int64_t>(bytes);
  counts.peak_bytes = std::max(counts.peak_bytes, counts.live_bytes);
}

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t wanted) override {
    constexpr std::size_t kAlignment = 512;  // as CUDA's
    Machine& m = machine();
    const Lock lock(m.mutex);
    const int device = current_device();
    const c10::Device where(kCuda, static_cast<c10::DeviceIndex>(device));
    if (wanted == 0) return {nullptr, nullptr, &release, where};
    const std::size_t bytes =
        (wanted + kAlignment - 1) / kAlignment * kAlignment;
    Capture* const capture = capture_here(device);
    std::byte* data = capture == nullptr ? nullptr : capture->reused(bytes);
    if (data != nullptr) return {data, data, &release, where};
    if (capture == nullptr) check_no_capture("memory that is no graph's");
    data = m.arenas.at(static_cast<std::size_t>(device)).allocate(bytes);
    const Allocation added{
        .data = data,
        .bytes = bytes,
        .device = device,
        .stream = computing_on(device),
        .graph = capture == nullptr ? nullptr : capture->memory()};
    std::memset(bytes_at(added, data), kPoison, bytes);
    m.allocations.emplace(data, added);
    count_allocation(bytes);
    return {data, data, &release, where};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const Lock lock(machine().mutex);
    if (capture_here(current_device()) != nullptr)
      refuse_in_capture("memory that grows");
    const Use use = start(computing_on(current_device()), "copy_data");
    Allocation& source = *find_allocation(from);
    Allocation& target = *find_allocation(to);
    read(source, use);
    write(target, use);
    std::memcpy(bytes_at(target, to), bytes_at(source, from), bytes);
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    const Lock lock(machine().mutex);
    ++machine().counts.record_streams;
    if (Allocation* const found = find_allocation(data.get()))
      found->recorded.insert(number_of(stream));
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    const Lock lock(machine().mutex);
    for (Arena& arena : machine().arenas) arena.empty_cache();
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(
      c10::DeviceIndex /*device*/) override {
    return {};
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(
      c10::DeviceIndex device) override {
    const Lock lock(machine().mutex);
    const Arena& arena = machine().arenas.at(static_cast<std::size_t>(device));
    return {arena.limit() - std::min(arena.taken(), arena.limit()),
            arena.limit()};
  }
  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
  void resetPeakStats(c10::DeviceIndex /*device*/) override {}
};

DeviceMemory device_memory;
REGISTER_ALLOCATOR(kCuda, &device_memory)

}  // namespace

c10::DeviceAllocator& device_allocator() {
  return device_memory;
}

}  // namespace sluice::simcuda
