// The functions of events that processes share.
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/simcuda/runtime/call.h"

/// An event of CUDA IPC, made here or opened.
struct CUevent_st {
  std::unique_ptr<sluice::simcuda::SharedMapping> mapping;
  int device = 0;  ///< on which it was made or opened
};

namespace sim = sluice::simcuda;
using sim::SharedBlock;
using sim::SharedMapping;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return sim::call("cudaEventCreateWithFlags()", [&] {
    // The only ones that another process can open.
    if (flags != (cudaEventInterprocess | cudaEventDisableTiming))
      return cudaErrorInvalidValue;
    const int device = sim::current_device();
    *event = new CUevent_st{SharedMapping::make(SharedBlock::Kind::event,
                                                sim::host_number(device), 0),
                            device};
    ++sim::machine().counts.events_made;
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return sim::call("cudaEventDestroy()", [&] {
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return sim::call("cudaEventRecord()", [&] {
    const std::size_t number = sim::number_of_stream(stream);
    if (event->device != sim::device_of(number))
      return cudaErrorInvalidResourceHandle;
    ++sim::machine().counts.events_recorded;
    sim::start(number, "record");
    SharedBlock& block = event->mapping->block();
    const std::lock_guard lock(block.lock);
    sim::write_clock(sim::machine().streams.at(number), block.recorded);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned /*flags*/) {
  return sim::call("cudaStreamWaitEvent()", [&] {
    ++sim::machine().counts.waits_of_streams;
    SharedBlock& block = event->mapping->block();
    const std::lock_guard lock(block.lock);
    sim::join(sim::machine().streams.at(sim::number_of_stream(stream)),
              sim::read_clock(block.recorded));
    return cudaSuccess;
  });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle,
                                  cudaEvent_t event) {
  return sim::call("cudaIpcGetEventHandle()", [&] {
    if (!event->mapping->is_own()) return cudaErrorInvalidResourceHandle;
    sim::put_name(*event->mapping, handle->reserved);
    return cudaSuccess;
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                   cudaIpcEventHandle_t handle) {
  return sim::call("cudaIpcOpenEventHandle()", [&] {
    auto mapping = SharedMapping::open(sim::name_in(handle.reserved),
                                       SharedBlock::Kind::event);
    if (!mapping) return cudaErrorInvalidResourceHandle;
    if (mapping->is_own()) return cudaErrorDeviceUninitialized;
    *event = new CUevent_st{std::move(mapping), sim::current_device()};
    return cudaSuccess;
  });
}

}  // extern "C"
