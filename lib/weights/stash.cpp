// The graph of the forward, on weights of its own: an exact gradient of a batch
// at the weights with which it was forwarded (Huo et al., ICML 2018,
// arXiv:1804.10574, as in its equations).
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/weights/histories.h"

namespace sluice {
namespace {

class Stash final : public History {
 public:
  explicit Stash(Block& block) : block_(block) {}

  Tensors forward(Flight& flight) override {
    return forward(flight, values_of(block_.parameters()));
  }

  Graph graph_of(Flight& flight, std::int64_t) override {
    // The next forward comes after this backward, so it may have the twin.
    free_.push_back(flight.block);
    return {std::move(flight.outputs), values_of(flight.block->parameters())};
  }

  Tensors weights_of(const Flight& flight) const override {
    return copied_weights(*flight.block);
  }

  std::int64_t stashed_bytes(const Flight& flight) const override {
    return flight.block ? bytes_of(values_of(flight.block->parameters())) : 0;
  }

  void restore(Flight& flight, const Tensors& weights) override {
    const BuffersKept kept(block_);
    forward(flight, weights);
  }

 private:
  Tensors forward(Flight& flight, const Tensors& weights) {
    if (free_.empty()) {
      flight.block = std::make_shared<Block>(block_.twin());
      flight.block->share_buffers(block_);
    } else {
      flight.block = std::move(free_.back());
      free_.pop_back();
    }
    overwrite_weights(weights, *flight.block);
    flight.outputs = forward_with_graph(*flight.block, flight);
    return flight.outputs;
  }

  Block& block_;
  std::vector<std::shared_ptr<Block>> free_;
};

}  // namespace

std::unique_ptr<History> make_stash(Block& block) {
  return std::make_unique<Stash>(block);
}

}  // namespace sluice
