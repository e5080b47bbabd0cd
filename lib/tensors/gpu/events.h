#pragma once

#include <memory>

#include <c10/core/Device.h>
#include <c10/core/Event.h>

namespace sluice {

/// An event for streams of that device, to be recorded: one that somebody has
/// done with, or a new one, which takes CUDA longer to make than to record. The
/// last owner gives it back, on whatever thread; only streams may wait for it
/// then.
std::shared_ptr<c10::Event> pooled_event(const c10::Device& device);

}  // namespace sluice
