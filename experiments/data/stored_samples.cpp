#include "experiments/data/stored_samples.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "lib/base/error.h"

namespace sluice {
namespace {

class StoredSamples final : public Samples {
 public:
  StoredSamples(std::vector<std::uint8_t> pixels,
                std::vector<std::uint8_t> labels)
      : pixels_(std::move(pixels)), labels_(std::move(labels)) {
    SLUICE_CHECK(!labels_.empty() && pixels_.size() % labels_.size() == 0,
                 "{} bytes for {} labels", pixels_.size(), labels_.size());
    sample_bytes_ = pixels_.size() / labels_.size();
  }

  std::int64_t size() const override {
    return static_cast<std::int64_t>(labels_.size());
  }

  void read(std::int64_t index, std::span<std::uint8_t> pixels) const override {
    SLUICE_CHECK(pixels.size() == sample_bytes_, "{} bytes asked for, not {}",
                 pixels.size(), sample_bytes_);
    const std::size_t begin = checked(index) * sample_bytes_;
    std::copy_n(pixels_.data() + begin, sample_bytes_, pixels.data());
  }

  std::int64_t label(std::int64_t index) const override {
    return labels_[checked(index)];
  }

 private:
  std::size_t checked(std::int64_t index) const {
    SLUICE_CHECK(index >= 0 && index < size(), "sample {} of {}", index,
                 size());
    return static_cast<std::size_t>(index);
  }

  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
  std::size_t sample_bytes_ = 0;
};

}  // namespace

std::unique_ptr<const Samples> stored_samples(
    std::vector<std::uint8_t> pixels, std::vector<std::uint8_t> labels) {
  return std::make_unique<StoredSamples>(std::move(pixels), std::move(labels));
}

}  // namespace sluice
