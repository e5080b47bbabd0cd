#include "lib/blocks/block.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/blocks/adapters.h"
#include "lib/blocks/checkpointed.h"
#include "lib/blocks/graphed_forward.h"
#include "lib/tensors/gpu/device_graph.h"
#include "lib/tensors/pack.h"

namespace sluice {
namespace {

void lay_out(torch::nn::Module& module, MemoryFormat format) {
  for (at::Tensor& parameter : module.parameters())
    parameter.set_data(laid_out(parameter.detach(), format));
}

/// Lets tensors lie in the storage of others.
void share(const NamedTensors& from, NamedTensors& tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    tensors[i].second.set_data(from[i].second.variable_data());
}

}  // namespace

at::Tensor laid_out(const at::Tensor& tensor, MemoryFormat format) {
  if (tensor.dim() != 4 || format == MemoryFormat::contiguous) return tensor;
  return tensor.contiguous(at::MemoryFormat::ChannelsLast);
}

Block::Block(int block, std::int64_t first_layer, std::function<Layers()> make,
             MemoryFormat format, const c10::Device& device)
    : block_(block),
      first_layer_(first_layer),
      make_(std::move(make)),
      format_(format),
      device_(device),
      layers_(make_()) {
  SLUICE_CHECK(!layers_.empty(), "block {} has no layers", block);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    layers_[i]->to(device);
    lay_out(*layers_[i], format);
    const std::string prefix =
        fmt::format("layers.{}.", first_layer + static_cast<std::int64_t>(i));
    for (const auto& item : layers_[i]->named_parameters()) {
      weights_.emplace_back(prefix + item.key(), item.value());
      const bool trains = item.value().requires_grad();
      (trains ? parameters_ : frozen_).push_back(weights_.back());
    }
    for (const auto& item : layers_[i]->named_buffers())
      buffers_.emplace_back(prefix + item.key(), item.value());
    layers_[i]->train();
  }
}

void Block::set_training(bool training) {
  if (training == training_) return;
  for (const auto& layer : layers_) layer->train(training);
  training_ = training;
}

void Block::use_graphs() {
  if (can_capture_graphs(device_))
    graphs_ = std::make_shared<GraphedForward>(device_);
}

Tensors Block::forward(const Tensors& inputs, Pass pass) {
  set_training(pass.training);
  const bool is_captured = pass.draws != nullptr;
  const bool has_graph = pass.training && at::GradMode::is_enabled();
  if (checkpointed_ > 0 && has_graph) return run_segments(inputs, pass);
  if (!graphs_ || is_captured || !has_graph) return run_layers(inputs, pass);
  return graphs_->forward(*this, inputs, pass,
                          [&] { return run_layers(inputs, pass); });
}

Tensors Block::run_layers(const Tensors& inputs, Pass pass) {
  Tensors values = inputs;
  const WriteCheck unchanged({&inputs});
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    pass.layer = first_layer_ + static_cast<std::int64_t>(i);
    values = layers_[i]->forward(values, pass);
    // A later layer may still see the input, through a view of it.
    unchanged.check(fmt::format("layer {} of block {}", pass.layer, block_));
  }
  return values;
}

Tensors Block::run_segments(const Tensors& inputs, Pass pass) {
  Tensors values = inputs;
  const WriteCheck unchanged({&inputs});
  const auto count = std::ssize(layers_);
  for (std::int64_t first = 0; first < count; first += checkpointed_) {
    const auto begin = layers_.begin() + first;
    const Layers segment(begin, begin + std::min(checkpointed_, count - first));
    pass.layer = first_layer_ + first;
    const WriteCheck own({&values});
    Tensors outputs = run_checkpointed(segment, pass, values, device_);
    // Layers that run again must find what they found first.
    for (const WriteCheck* check : {&unchanged, &own})
      check->check(fmt::format("one of the layers from {} on of block {}",
                               pass.layer, block_));
    values = std::move(outputs);
  }
  return values;
}

bool Block::is_reversible() const {
  return std::all_of(layers_.begin(), layers_.end(),
                     [](const auto& layer) { return layer->is_reversible(); });
}

Tensors Block::inverse(const Tensors& outputs, Pass pass) {
  set_training(pass.training);
  Tensors values = outputs;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    pass.layer = first_layer_ + static_cast<std::int64_t>(i);
    values = layers_[i]->inverse(values, pass);
  }
  return values;
}

Block Block::twin() const {
  Block twin(block_, first_layer_, make_, format_, device_);
  if (graphs_) twin.use_graphs();
  twin.checkpoint_every(checkpointed_);
  share(frozen_, twin.frozen_);
  return twin;
}

void Block::share_buffers(const Block& twin) {
  share(twin.buffers_, buffers_);
}

void Block::share_weights(const Block& twin) {
  share(twin.parameters_, parameters_);
}

BufferGuard::BufferGuard(Tensors buffers) : buffers_(std::move(buffers)) {
  for (const at::Tensor& buffer : buffers_)
    before_.push_back(buffer.detach().clone());
}

BufferGuard::BufferGuard(const Block& block)
    : BufferGuard(values_of(block.buffers())) {}

BufferGuard::~BufferGuard() {
  // A graph may hold a buffer, and would refuse one that was seen to change.
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i].variable_data().copy_(before_[i]);
}

Layers make_layers(const Model& model, std::int64_t first, std::int64_t last,
                   std::uint64_t seed) {
  Layers layers;
  for (std::int64_t i = first; i <= last; ++i) {
    layers.push_back(model.layers.at(static_cast<std::size_t>(i)).make());
    const std::uint64_t key =
        random_key({seed, static_cast<std::uint64_t>(i), key_part("weights")});
    layers.back()->initialise(key);
    begin_adapters(*layers.back(), key);
  }
  return layers;
}

Block make_block(const Model& model, int block, std::int64_t first,
                 std::int64_t last, std::uint64_t seed, MemoryFormat format,
                 const c10::Device& device) {
  const auto make = [model, first, last, seed] {
    return make_layers(model, first, last, seed);
  };
  return {block, first, make, format, device};
}

}  // namespace sluice
