#include "experiments/data/order/copied_ahead.h"

#include <cstdint>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/gpu/events.h"
#include "lib/tensors/streams.h"

namespace sluice {
namespace {

at::Tensor pinned_copy(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const at::Tensor copy = at::empty_strided(
      tensor.sizes(), tensor.strides(), tensor.options().pinned_memory(true));
  return copy.copy_(tensor);
}

class CopiedSource final : public Source {
 public:
  CopiedSource(std::unique_ptr<Source> inner, const c10::Device& device,
               MemoryFormat format)
      : inner_(std::move(inner)), device_(device), format_(format) {}

  Batch batch(std::int64_t t) override {
    const CurrentDevice on(device_);  // of a thread that has another
    Batch batch = inner_->batch(t);
    batch.labels = pinned_copy(batch.labels);
    batch.raw_inputs = pinned_copy(batch.raw_inputs);
    const at::Tensor pinned = pinned_copy(laid_out(batch.inputs, format_));
    const c10::Stream copies =
        copies_of_this_thread(device_, CopyWay::arriving);
    {
      const c10::StreamGuard in(copies);
      batch.inputs = pinned.to(device_, /*non_blocking=*/true);
    }
    batch.copied = pooled_event(device_);
    batch.copied->record(copies);
    return batch;
  }
  std::int64_t batches_per_epoch() const override {
    return inner_->batches_per_epoch();
  }

 private:
  std::unique_ptr<Source> inner_;
  c10::Device device_;
  MemoryFormat format_;
};

class OrderedSource final : public Source {
 public:
  explicit OrderedSource(std::unique_ptr<Source> copied)
      : copied_(std::move(copied)) {}

  Batch batch(std::int64_t t) override {
    Batch batch = copied_->batch(t);
    if (!batch.copied) return batch;
    const c10::Stream computing = computing_on(batch.inputs.device());
    batch.copied->block(computing);
    batch.copied = nullptr;
    // Allocated in the one stream, used and released in the other.
    batch.inputs.record_stream(computing);
    return batch;
  }
  std::int64_t batches_per_epoch() const override {
    return copied_->batches_per_epoch();
  }

 private:
  std::unique_ptr<Source> copied_;
};

}  // namespace

std::unique_ptr<Source> copied_ahead(std::unique_ptr<Source> inner,
                                     const c10::Device& device,
                                     MemoryFormat format) {
  return std::make_unique<CopiedSource>(std::move(inner), device, format);
}

std::unique_ptr<Source> in_order_of_copies(std::unique_ptr<Source> copied) {
  return std::make_unique<OrderedSource>(std::move(copied));
}

}  // namespace sluice
