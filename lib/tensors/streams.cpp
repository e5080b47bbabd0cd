#include "lib/tensors/streams.h"

#include <map>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace sluice {

c10::Stream copies_of_this_thread(const c10::Device& device, CopyWay way) {
  thread_local std::map<std::pair<c10::DeviceIndex, CopyWay>, c10::Stream>
      streams;
  const std::pair key{device.index(), way};
  const auto known = streams.find(key);
  if (known != streams.end()) return known->second;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return streams
      .emplace(key,
               guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true))
      .first->second;
}

c10::Stream computing_on(const c10::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

void order(const c10::Stream& earlier, const c10::Stream& later) {
  if (earlier == later) return;
  // Kept, for CUDA takes longer to make one than to record it. Who waits for it
  // waits for what was recorded last, so it can be recorded anew at once.
  thread_local std::map<std::pair<c10::DeviceType, c10::DeviceIndex>,
                        c10::Event>
      events;
  const std::pair key{earlier.device_type(), earlier.device_index()};
  c10::Event& event = events.try_emplace(key, key.first).first->second;
  event.record(earlier);
  event.block(later);
}

}  // namespace sluice
