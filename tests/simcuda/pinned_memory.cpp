#include "tests/simcuda/pinned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <string>

#include <fmt/format.h>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/report.h"

namespace sluice::simcuda {
namespace {

bool is_within(const PinnedBlock& pinned, const std::byte* address) {
  return address >= pinned.data && address < pinned.data + pinned.bytes;
}

void check_release(const PinnedBlock& pinned) {
  for (const Use& use : pinned.unknown)
    if (!is_before(use, machine().host))
      report(fmt::format(
          "pinned memory is {} while {} in {} may still use it{}",
          pinned.is_registered ? "unregistered" : "released", use.operation,
          name_of(use.stream),
          pinned.is_registered ? "" : ", and its allocator doesn't know"));
}

/// The allocation of LibTorch's that begins there.
bool begins_at(const PinnedBlock& pinned, const void* address) {
  return !pinned.is_registered && pinned.data == address;
}

std::size_t registered_limit() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): it is set before
  const char* const text = std::getenv("SIMCUDA_PINNED");
  return text == nullptr ? std::numeric_limits<std::size_t>::max()
                         : std::stoull(text);
}

std::size_t registered_bytes() {
  std::size_t sum = 0;
  for (const auto& [data, pinned] : machine().pinned)
    if (pinned.is_registered) sum += pinned.bytes;
  return sum;
}

void release_pinned(void* data) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const auto found = m.pinned.find(static_cast<std::byte*>(data));
  if (found == m.pinned.end()) return;
  const PinnedBlock& pinned = found->second;
  check_release(pinned);
  // The allocator would wait for the copies that it knows of.
  finish_copies_to_device(
      [&](const CopyToDevice& copy) { return is_within(pinned, copy.from); });
  std::erase_if(m.to_host, [&](const CopyToHost& copy) {
    return is_within(pinned, copy.to);
  });
  std::memset(data, kPoison, pinned.bytes);
  m.pinned.erase(found);
  std::free(data);
}

class PinnedMemory final : public at::HostAllocator {
 public:
  at::DataPtr allocate(std::size_t wanted) override {
    constexpr std::size_t kPage = 4096;
    Machine& m = machine();
    const Lock lock(m.mutex);
    call_on_any("an allocation of pinned memory");
    check_no_capture("an allocation of pinned memory");
    const std::size_t pages =
        std::max<std::size_t>((wanted + kPage - 1) / kPage, 1);
    void* const data = std::aligned_alloc(kPage, pages * kPage);
    if (data == nullptr) throw std::bad_alloc();
    std::memset(data, kPoison, wanted);
    auto* const bytes = static_cast<std::byte*>(data);
    m.pinned[bytes] = {.data = bytes, .bytes = wanted};
    ++m.counts.pinned_allocations;
    return {data, data, &release_pinned, c10::Device(c10::DeviceType::CPU)};
  }

  at::DeleterFnPtr raw_deleter() const override { return &release_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void* data, void* context,
                    c10::Stream /*stream*/) override {
    const Lock lock(machine().mutex);
    const auto knows = [](const void* address) {
      const PinnedBlock* const pinned = find_pinned(address);
      return pinned != nullptr && begins_at(*pinned, address);
    };
    return knows(context) || knows(data);
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedMemory pinned_memory;
REGISTER_HOST_ALLOCATOR(kCuda, &pinned_memory)

}  // namespace

PinnedBlock* find_pinned(const void* address) {
  Machine& m = machine();
  const auto* const at = static_cast<const std::byte*>(address);
  auto found = m.pinned.upper_bound(at);
  if (found == m.pinned.begin()) return nullptr;
  --found;
  return is_within(found->second, at) ? &found->second : nullptr;
}

Registering register_memory(std::byte* data, std::size_t bytes) {
  auto& all = machine().pinned;
  const auto next = all.lower_bound(data);
  if ((next != all.end() && next->first < data + bytes) ||
      find_pinned(data) != nullptr)
    return Registering::overlaps;
  if (registered_bytes() + bytes > registered_limit())
    return Registering::too_much;
  all[data] = {.data = data, .bytes = bytes, .is_registered = true};
  return Registering::done;
}

bool unregister_memory(std::byte* data) {
  Machine& m = machine();
  const auto found = m.pinned.find(data);
  if (found == m.pinned.end() || !found->second.is_registered) return false;
  const PinnedBlock& pinned = found->second;
  check_release(pinned);
  // The memory may be gone in a moment.
  finish_copies_to_device(
      [&](const CopyToDevice& copy) { return is_within(pinned, copy.from); });
  std::erase_if(m.to_host, [&](const CopyToHost& copy) {
    return is_within(pinned, copy.to);
  });
  m.pinned.erase(found);
  return true;
}

void record_copy(PinnedBlock& pinned, const at::Tensor& tensor,
                 const Use& use) {
  const bool is_known =
      begins_at(pinned, tensor.storage().data_ptr().get_context()) ||
      begins_at(pinned, tensor.const_data_ptr());
  if (is_known) return;
  std::erase_if(pinned.unknown, [](const Use& earlier) {
    return is_before(earlier, machine().host);
  });
  pinned.unknown.push_back(use);
}

void finish_copies_to_host(
    const std::function<bool(const CopyToHost&)>& is_wanted) {
  std::erase_if(machine().to_host, [&](const CopyToHost& copy) {
    if (!is_wanted(copy)) return false;
    std::memcpy(copy.to, copy.bytes.data(), copy.bytes.size());
    return true;
  });
}

at::HostAllocator& pinned_allocator() {
  return pinned_memory;
}

}  // namespace sluice::simcuda
