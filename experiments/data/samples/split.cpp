#include "experiments/data/samples/split.h"

#include <mutex>
#include <utility>

#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"

namespace sluice {

struct Split::State {
  std::mutex mutex;
  Load load;                               // guarded by mutex
  std::shared_ptr<const Samples> samples;  // guarded by mutex
};

Split::Split(std::int64_t size, Load load)
    : size_(size), state_(std::make_shared<State>()) {
  state_->load = std::move(load);
}

std::shared_ptr<const Samples> Split::samples() const {
  SLUICE_CHECK(state_ != nullptr, "a split without samples");
  const std::lock_guard lock(state_->mutex);
  if (state_->samples) return state_->samples;
  auto samples = state_->load();
  if (samples->size() != size_) {
    throw UserError(
        "the data files have changed: {} samples were there, now {} are", size_,
        samples->size());
  }
  state_->samples = std::move(samples);
  state_->load = nullptr;
  return state_->samples;
}

}  // namespace sluice
