#include "experiments/data/order/gathered.h"

#include <utility>

#include <ATen/DeviceAccelerator.h>

#include "lib/base/error.h"
#include "lib/tensors/streams.h"

namespace sluice {
namespace {

constexpr std::int64_t kPartOfFree = 4;

class PlacesOfSamples final : public Samples {
 public:
  explicit PlacesOfSamples(std::shared_ptr<const Samples> of)
      : of_(std::move(of)) {}

  std::int64_t size() const override { return of_->size(); }
  std::int64_t position(std::int64_t index, EpochKey key) const override {
    return of_->position(index, key);
  }
  Batch batch(std::span<const std::int64_t> indices,
              EpochKey key) const override {
    return of_->places(indices, key);
  }

 private:
  std::shared_ptr<const Samples> of_;
};

class GatheredSource final : public Source {
 public:
  GatheredSource(std::unique_ptr<Source> places,
                 std::shared_ptr<const InputTable> table, MemoryFormat format)
      : places_(std::move(places)), table_(std::move(table)), format_(format) {}

  Batch batch(std::int64_t t) override {
    Batch batch = places_->batch(t);
    if (!is_recorded_) record_table(batch.inputs.device());
    batch.inputs = laid_out(table_->gathered(batch.inputs), format_);
    return batch;
  }
  std::int64_t batches_per_epoch() const override {
    return places_->batches_per_epoch();
  }

 private:
  /// Others may have allocated it, in another stream.
  void record_table(const c10::Device& device) {
    const c10::Stream computing = computing_on(device);
    for (const at::Tensor& tensor :
         {table_->rows, table_->values, table_->steps})
      if (tensor.defined()) at::Tensor(tensor).record_stream(computing);
    is_recorded_ = true;
  }

  std::unique_ptr<Source> places_;
  std::shared_ptr<const InputTable> table_;
  MemoryFormat format_;
  bool is_recorded_ = false;
};

}  // namespace

std::shared_ptr<const Samples> places_of(std::shared_ptr<const Samples> of) {
  return std::make_shared<PlacesOfSamples>(std::move(of));
}

std::unique_ptr<Source> gathered(std::unique_ptr<Source> places,
                                 std::shared_ptr<const InputTable> table,
                                 MemoryFormat format) {
  return std::make_unique<GatheredSource>(std::move(places), std::move(table),
                                          format);
}

bool fit_on(const c10::Device& device, std::int64_t bytes) {
  const auto [free, all] =
      at::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  return bytes <= static_cast<std::int64_t>(free) / kPartOfFree;
}

}  // namespace sluice
