#pragma once

#include <cstddef>
#include <memory>

#include "lib/base/device_traffic.h"
#include "lib/base/ipc_device.h"
#include "lib/base/messages/channel.h"
#include "transport/wire/shared_options.h"

// Tensors that go from a GPU to a GPU, between two processes of one host. Their
// bytes never come to the host, and no end waits for a GPU: the sender puts a
// copy into memory of its own, in the stream that computes, and the receiver,
// which has opened that memory, copies out of it in a stream beside its own.
// Two events order this, one for each end to record: `ready`, and `taken`, for
// which the sender's next copy and the receiver's computing stream wait. Over a
// link of shared memory goes a parcel (ipc_parcel.h) in each tensor's place.
//
// Each parcel lies in a slot of the link, and the slot has memory on the GPU
// for good. It is free again when the receiver has given it back, and by then
// that has recorded the event that the next copy into the slot's memory waits
// for.
namespace sluice {

/// Slots for the parcels of a channel that holds so many messages.
SharedMemoryOptions with_parcels(SharedMemoryOptions options,
                                 std::size_t capacity);

/// Around the sender of such a link. `channel` takes what can't go so, still on
/// the GPU: tensors of another device, and those for which there is no free
/// slot or no memory, so that no thread waits for either; a size of memory that
/// was refused once isn't tried again, and `traffic` has a reason. `slots` are
/// those of the link (slots_of()), `count` of them, all free now, and used by
/// no other code. The memory on the GPU stays when the sender is destroyed, for
/// the peer may still read it; it goes with the process.
std::unique_ptr<Sender> ipc_sender(std::unique_ptr<Sender> channel,
                                   const BufferSource& slots, std::size_t count,
                                   std::shared_ptr<IpcDevice> device,
                                   std::shared_ptr<DeviceTraffic> traffic);

/// Around the receiver at the other end. What comes in parcels, of the GPU
/// `peer`, is copied to memory of its own on own_device() of `device`. Throws
/// LinkError for parcels that can't be. discard() does nothing on a GPU. What
/// it has opened it closes when it is destroyed.
std::unique_ptr<Receiver> ipc_receiver(std::unique_ptr<Receiver> channel,
                                       std::shared_ptr<IpcDevice> device,
                                       DeviceId peer);

}  // namespace sluice
