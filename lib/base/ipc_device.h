#pragma once

#include <array>
#include <cstddef>

#include "lib/base/buffer.h"

namespace sluice {

/// Handle by which a process of this host opens memory or an event of another.
struct IpcHandle {
  std::array<std::byte, 64> bytes = {};

  bool operator==(const IpcHandle&) const = default;
};

/// A GPU, as all processes of a host call it: its UUID.
using DeviceId = std::array<std::byte, 16>;

/// Device functions that a block on a GPU needs to hand tensors to a process of
/// the same host that computes on a GPU too, without the host touching their
/// bytes. Work is put into streams, and nothing but finish() makes the host
/// wait. All streams, memory and events are made or opened on own_device(): so
/// this process starts CUDA on no neighbour's GPU. One thread uses it, and it
/// is its current stream on own_device() that is meant by "the current stream".
///
/// In lib/tensors/gpu/cuda_ipc.h there is one of CUDA and LibTorch; in the
/// tests of transport/ one that stands in for it. What a device refuses is an
/// InternalError, and of another process's a LinkError.
class IpcDevice {
 public:
  struct Stream {
    void* handle = nullptr;
  };
  struct Event {
    void* handle = nullptr;
  };

  virtual ~IpcDevice() = default;

  virtual int own_device() const = 0;
  virtual DeviceId id() const = 0;  ///< of own_device()
  /// Whether memory of that GPU may be readable from own_device(); false: it is
  /// not. Of one that this process doesn't see nothing is known: opening its
  /// memory tells.
  virtual bool may_reach(const DeviceId& id) const = 0;

  // Memory and events for other processes to open. They are never freed,
  // because freeing what another process has open is undefined. They go with
  // the process.

  /// Allocates memory; nullptr when so much isn't free.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual Event make_event() = 0;
  virtual IpcHandle handle_of_memory(std::byte* memory) = 0;
  virtual IpcHandle handle_of_event(const Event& event) = 0;

  // Memory and events of another process, of whatever GPU.

  virtual std::byte* open_memory(const IpcHandle& handle) = 0;
  virtual Event open_event(const IpcHandle& handle) = 0;
  virtual void close_memory(std::byte* memory) noexcept = 0;
  virtual void close_event(const Event& event) noexcept = 0;

  // What a stream does next ...

  /// The current stream, for what leaves: a copy within a GPU takes little
  /// time, and needs no event to be behind what was computed.
  virtual Stream current() = 0;
  /// A stream beside it for what arrives, which so doesn't wait for what is
  /// computed before it.
  virtual Stream arriving() = 0;
  /// ... waits for what the event recorded last; for nothing if it never did.
  virtual void wait(const Stream& stream, const Event& event) = 0;
  /// ... is behind what the event stands for from now on.
  virtual void record(const Stream& stream, const Event& event) = 0;
  virtual void copy(const Stream& stream, std::byte* to, const std::byte* from,
                    std::size_t bytes) = 0;

  /// Memory to be filled in arriving().
  virtual Buffer allocate_arriving(std::size_t bytes) = 0;
  /// Lets the current stream wait for what the event recorded last, in
  /// arriving(), after the buffer was filled there; from now on the buffer is
  /// the current stream's.
  virtual void hand_to_current(const Event& filled, const Buffer& buffer) = 0;
  /// Waits until the stream has done all that it has, or fails. Any thread may
  /// call it.
  virtual void finish(const Stream& stream) noexcept = 0;
};

}  // namespace sluice
