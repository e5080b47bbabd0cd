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
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace sluice
