// Devices, streams and events, as c10 asks for them.
#include <cstdint>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "tests/simcuda/machine.h"

namespace sluice::simcuda {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

struct Event {
  Clock clock = {};
  std::uint64_t number = 0;
  std::int64_t queries = 0;          ///< of any event, before this was recorded
  const Capture* capture = nullptr;  ///< in which it was recorded
};

/// An event is done when so many queries, of any, have followed it.
constexpr std::int64_t kQueriesUntilDone = 3;

int index_of(const Device& device) {
  return device.has_index() ? device.index() : current_device();
}

Device device_at(int index) {
  return {kCuda, static_cast<DeviceIndex>(index)};
}

Stream stream_at(int device, int id) {
  return Stream(Stream::UNSAFE, device_at(device), id);
}

/// Whether the host has waited for all that the clock knows, or has got word of
/// it. Without that some machine would find the work not yet done.
bool is_known_to_host(const Clock& clock) {
  Clock both = machine().host;
  join(both, clock);
  return both == machine().host;
}

struct Guard final : public c10::impl::DeviceGuardImplInterface {
  Guard() = default;
  explicit Guard(c10::DeviceType /*type*/) {}

  c10::DeviceType type() const override { return kCuda; }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(visible_devices());
  }

  Device getDevice() const override { return device_at(current_device()); }
  /// What guards begin with: somebody wants that device.
  Device exchangeDevice(Device to) const override {
    const Lock lock(machine().mutex);
    const Device before = getDevice();
    check_works(index_of(to));
    current_device() = index_of(to);
    ask_for(index_of(to));
    return before;
  }
  /// Autograd calls it for each device, in a thread of each.
  void setDevice(Device to) const override {
    check_works(index_of(to));
    current_device() = index_of(to);
  }
  /// What guards end with, which starts CUDA nowhere.
  void uncheckedSetDevice(Device to) const noexcept override {
    current_device() = index_of(to);
  }

  Stream getStream(Device of) const override {
    return stream_at(index_of(of), current_stream(index_of(of)));
  }
  Stream getDefaultStream(Device of) const override {
    return stream_at(index_of(of), 0);
  }
  Stream getStreamFromGlobalPool(Device of,
                                 bool /*isHighPriority*/) const override {
    const Lock lock(machine().mutex);
    int& last =
        machine().last_of_pool.at(static_cast<std::size_t>(index_of(of)));
    last = last % (kStreams - 1) + 1;
    return stream_at(index_of(of), last);
  }
  Stream getNewStream(Device of, int /*priority*/) const override {
    return getStreamFromGlobalPool(of, false);
  }
  Stream exchangeStream(Stream to) const override {
    const Stream before = getStream(to.device());
    current_stream(to.device_index()) = static_cast<int>(to.id());
    return before;
  }
  void* getStreamNativeHandle(const Stream of) const override {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is never followed
    return reinterpret_cast<void*>(number_of(of) + 1);
  }

  void destroyEvent(void* event,
                    DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void record(void** event, const Stream& stream, DeviceIndex device,
              c10::EventFlag flag) const override {
    // As CUDA's: an event belongs to the device where it was recorded first.
    TORCH_CHECK(device == -1 || device == stream.device_index(),
                "simulated GPU: event of device ", device,
                " is recorded in a stream of device ", stream.device_index());
    Machine& m = machine();
    const Lock lock(m.mutex);
    if (*event == nullptr) {
      *event = new Event;
      ++m.counts.events_made;
    }
    ++m.counts.events_recorded;
    if (flag == c10::EventFlag::BACKEND_DEFAULT) ++m.counts.events_of_clocks;
    if (Capture* const capture = capture_of(number_of(stream))) {
      *static_cast<Event*>(*event) = {.capture = capture};
      return;
    }
    start(number_of(stream), "record");
    *static_cast<Event*>(*event) = {m.streams.at(number_of(stream)),
                                    ++m.last_event, m.counts.event_queries};
  }
  void block(void* event, const Stream& stream) const override {
    if (event == nullptr) return;
    Machine& m = machine();
    const Lock lock(m.mutex);
    ++m.counts.waits_of_streams;
    const Event& awaited = *static_cast<Event*>(event);
    TORCH_CHECK(awaited.capture == capture_of(number_of(stream)),
                "CUDA error: dependency created on uncaptured work in another "
                "stream");
    join(m.streams.at(number_of(stream)), awaited.clock);
  }
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const Lock lock(machine().mutex);
    call_on_current("the query of an event");
    check_no_capture("the query of an event");
    const std::int64_t queries = ++machine().counts.event_queries;
    const Event& asked = *static_cast<const Event*>(event);
    if (is_known_to_host(asked.clock)) return true;
    if (queries - asked.queries < kQueriesUntilDone) return false;
    host_reaches(asked.clock);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr) return;
    const Lock lock(machine().mutex);
    call_on_current("a wait for an event");
    check_no_capture("a wait for an event");
    const Clock& clock = static_cast<Event*>(event)->clock;
    // The host waits only for what it doesn't know to be done.
    if (!is_known_to_host(clock)) count_wait(&Counts::waits_for_events);
    host_reaches(clock);
  }
  /// Time isn't simulated: a microsecond for each event in between.
  double elapsedTime(void* from, void* to,
                     DeviceIndex /*device*/) const override {
    return 1e-3 * static_cast<double>(static_cast<Event*>(to)->number -
                                      static_cast<Event*>(from)->number);
  }

  bool queryStream(const Stream& stream) const override {
    const Lock lock(machine().mutex);
    check_no_capture("the query of a stream");
    return is_known_to_host(machine().streams.at(number_of(stream)));
  }
  void synchronizeStream(const Stream& stream) const override {
    const Lock lock(machine().mutex);
    check_no_capture("a wait for a stream");
    count_wait(&Counts::waits_for_streams);
    host_reaches(machine().streams.at(number_of(stream)));
  }
  void synchronizeDevice(DeviceIndex device) const override {
    Machine& m = machine();
    const Lock lock(m.mutex);
    check_no_capture("a wait for a device");
    count_wait(&Counts::waits_for_devices);
    Clock all = {};
    for (int i = 0; i < kStreams; ++i)
      join(all, m.streams.at(number_of(device, i)));
    host_reaches(all);
  }
  void recordDataPtrOnStream(const c10::DataPtr& data,
                             const Stream& stream) const override {
    device_allocator().recordStream(data, stream);
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace
}  // namespace sluice::simcuda
