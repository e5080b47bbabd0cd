#pragma once

#include <map>
#include <utility>

#include "lib/base/error.h"
#include "lib/blocks/source.h"

namespace sluice {

/// Batches that come with the grants, each before it is taken.
class FedSource final : public Source {
 public:
  void put(Batch batch) { batches_[batch.index] = std::move(batch); }

  Batch batch(std::int64_t t) override {
    auto node = batches_.extract(t);
    SLUICE_CHECK(!node.empty(), "nobody brought batch {}", t);
    return std::move(node.mapped());
  }
  std::int64_t batches_per_epoch() const override { return 0; }

 private:
  std::map<std::int64_t, Batch> batches_;
};

}  // namespace sluice
