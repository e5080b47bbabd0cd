#include "lib/tensors/gpu/kept_sources.h"

#include <deque>
#include <exception>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>

#include "lib/tensors/gpu/current_device.h"

namespace sluice {
namespace {

class KeptSources {
 public:
  KeptSources() = default;
  KeptSources(const KeptSources&) = delete;
  KeptSources& operator=(const KeptSources&) = delete;
  ~KeptSources() {
    for (KeptSource& kept : kept_) {
      try {
        const CurrentDevice on(kept.done->device());
        kept.done->synchronize();
        kept.tensor.reset();  // maybe the last of memory that is registered
      } catch (const std::exception&) {
        // A device that has failed copies nothing any more.
      }
    }
  }

  void keep(std::shared_ptr<c10::Event> done, at::Tensor tensor) {
    while (!kept_.empty() && is_done(*kept_.front().done)) kept_.pop_front();
    kept_.push_back({std::move(done), std::move(tensor)});
  }

 private:
  struct KeptSource {
    std::shared_ptr<c10::Event> done;
    at::Tensor tensor;
  };

  static bool is_done(const c10::Event& event) {
    const CurrentDevice on(event.device());
    return event.query();
  }

  std::deque<KeptSource> kept_;
};

}  // namespace

bool allocator_keeps(const at::Tensor& tensor, const c10::Stream& stream) {
  if (!tensor.is_cpu() || !tensor.is_pinned()) return true;
  return at::getHostAllocator(stream.device_type())
      ->record_event(tensor.data_ptr(),
                     tensor.storage().data_ptr().get_context(), stream);
}

void keep_until(std::shared_ptr<c10::Event> done, at::Tensor tensor) {
  thread_local KeptSources sources;
  sources.keep(std::move(done), std::move(tensor));
}

}  // namespace sluice
