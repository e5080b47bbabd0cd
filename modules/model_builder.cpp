#include "modules/model_builder.h"

#include <memory>
#include <utility>

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>

#include "lib/base/error.h"
#include "lib/blocks/fused_linear.h"
#include "lib/tensors/pooling.h"
#include "modules/transformer.h"

namespace sluice {
namespace {

using at::Tensor;

UnaryFunction function_of(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return [](const Tensor& x) { return at::relu(x); };
    case Activation::leaky_relu:
      return [](const Tensor& x) { return at::leaky_relu(x, 0.01); };
    case Activation::tanh:
      return [](const Tensor& x) { return at::tanh(x); };
    case Activation::gelu:
      return [](const Tensor& x) { return at::gelu(x); };
  }
  throw InternalError("no activation {}", static_cast<int>(activation));
}

UnaryFunction function_of(Pooling pooling, const SlidingWindow& window) {
  if (pooling == Pooling::max) {
    return [w = window](const Tensor& x) {
      return at::max_pool2d(x, w.size, w.stride, w.padding);
    };
  }
  return [w = window](const Tensor& x) {
    return at::avg_pool2d(x, w.size, w.stride, w.padding);
  };
}

std::int64_t positions(std::int64_t extent, const SlidingWindow& window) {
  const std::int64_t room = extent + 2 * window.padding - window.size;
  return room < 0 ? 0 : room / window.stride + 1;
}

}  // namespace

ModelBuilder::ModelBuilder(const SampleSpec& sample, Texts texts)
    : shape_(sample.shape) {
  if (sample.is_text && texts == Texts::refused)
    throw UserError("this model takes images or vectors, the data are text");
  bool is_sample = shape_.size() == 1 || shape_.size() == 3;
  for (const std::int64_t size : shape_) is_sample = is_sample && size > 0;
  if (!is_sample) {
    throw UserError("a model takes samples of shape [C] or [C, H, W], not [{}]",
                    fmt::join(shape_, ", "));
  }
  if (sample.classes < 1)
    throw UserError("a model of {} classes", sample.classes);
  model_.sample = sample;
}

ModelBuilder& ModelBuilder::entry() {
  model_.layers.emplace_back().output = shape_;
  parts_.emplace_back();
  requests_.emplace_back();
  return *this;
}

ModelBuilder& ModelBuilder::flatten() {
  remember([](ModelBuilder& builder, std::int64_t) { builder.flatten(); });
  if (shape_.size() == 1) return *this;
  shape_ = {elements()};
  step("flatten", 0, [](Chain& chain) {
    chain.add([](const Tensor& x) { return flat(x); });
  });
  return *this;
}

ModelBuilder& ModelBuilder::linear(std::int64_t outputs) {
  SLUICE_CHECK(shape_.size() <= 2, "linear on [{}]", fmt::join(shape_, ", "));
  remember([outputs](ModelBuilder& builder, std::int64_t) {
    builder.linear(outputs);
  });
  const std::int64_t inputs = shape_.back();
  shape_.back() = outputs;
  step(fmt::format("linear {}->{}", inputs, outputs),
       static_cast<double>(inputs * elements()),
       [inputs, outputs](Chain& chain) {
         chain.add("linear", FusedLinear(inputs, outputs));
       });
  return *this;
}

ModelBuilder& ModelBuilder::conv(std::int64_t channels, SlidingWindow window) {
  remember([=](ModelBuilder& builder, std::int64_t stride) {
    SlidingWindow wider = window;
    wider.stride *= stride;
    builder.conv(channels, wider);
  });
  const std::int64_t inputs = shape_.front();
  slide(channels, window);
  const double weights =
      static_cast<double>(inputs * window.size * window.size);
  step(fmt::format("conv {}->{} {}x{}", inputs, channels, window.size,
                   window.size),
       weights * static_cast<double>(elements()), [=](Chain& chain) {
         chain.add("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(
                                                 inputs, channels, window.size)
                                                 .stride(window.stride)
                                                 .padding(window.padding)));
       });
  return *this;
}

ModelBuilder& ModelBuilder::norm() {
  remember([](ModelBuilder& builder, std::int64_t) { builder.norm(); });
  const std::int64_t channels = shape_.front();
  const bool is_flat = shape_.size() == 1;
  step("norm", 2.0 * static_cast<double>(elements()), [=](Chain& chain) {
    if (is_flat) {
      chain.add("norm", torch::nn::BatchNorm1d(channels));
    } else {
      chain.add("norm", torch::nn::BatchNorm2d(channels));
    }
  });
  return *this;
}

ModelBuilder& ModelBuilder::layer_norm() {
  remember([](ModelBuilder& builder, std::int64_t) { builder.layer_norm(); });
  step("layer norm", 2.0 * static_cast<double>(elements()),
       [width = shape_.back()](Chain& chain) {
         chain.add("layer_norm",
                   std::make_shared<LayerNorm>(width, /*bias=*/true));
       });
  return *this;
}

ModelBuilder& ModelBuilder::embedding(std::int64_t width) {
  SLUICE_CHECK(model_.sample.is_text && shape_.size() == 1,
               "an embedding of [{}]", fmt::join(shape_, ", "));
  shape_.push_back(width);
  step(fmt::format("embedding {}->{}", model_.sample.classes, width),
       static_cast<double>(elements()),
       [vocabulary = model_.sample.classes, width](Chain& chain) {
         chain.add("embedding", torch::nn::Embedding(vocabulary, width));
       });
  return *this;
}

ModelBuilder& ModelBuilder::activation(Activation activation) {
  remember([activation](ModelBuilder& builder, std::int64_t) {
    builder.activation(activation);
  });
  step("", static_cast<double>(elements()),
       [activation](Chain& chain) { chain.add(function_of(activation)); });
  return *this;
}

ModelBuilder& ModelBuilder::pool(Pooling pooling, SlidingWindow window) {
  remember([=](ModelBuilder& builder, std::int64_t) {
    builder.pool(pooling, window);
  });
  const double read = static_cast<double>(elements());
  slide(shape_.front(), window);
  step(pooling == Pooling::max ? "max pool" : "average pool", read,
       [=](Chain& chain) { chain.add(function_of(pooling, window)); });
  return *this;
}

ModelBuilder& ModelBuilder::global_average_pool() {
  SLUICE_CHECK(shape_.size() == 3, "a global pool on [{}]",
               fmt::join(shape_, ", "));
  remember([](ModelBuilder& builder, std::int64_t) {
    builder.global_average_pool();
  });
  const double read = static_cast<double>(elements());
  shape_ = {shape_.front()};
  step("global average pool", read, [](Chain& chain) {
    chain.add([](const Tensor& x) { return pixel_mean(x); });
  });
  return *this;
}

ModelBuilder& ModelBuilder::dropout(double p, DropoutUnit unit) {
  if (p == 0) return *this;
  remember(
      [=](ModelBuilder& builder, std::int64_t) { builder.dropout(p, unit); });
  step("dropout", static_cast<double>(elements()), [p, unit](Chain& chain) {
    chain.add("dropout", std::make_shared<Dropout>(p, unit));
  });
  return *this;
}

ModelBuilder& ModelBuilder::own(const OwnStep& own) {
  remember([own](ModelBuilder& builder, std::int64_t) { builder.own(own); });
  const SampleShape input = shape_;
  shape_ = own.output(input);
  step(own.name, own.flops(input),
       [add = own.add, input](Chain& chain) { add(chain, input); });
  return *this;
}

ModelBuilder& ModelBuilder::layer(LayerSpec layer) {
  shape_ = layer.output;
  model_.layers.push_back(std::move(layer));
  parts_.emplace_back();
  requests_.emplace_back();
  return *this;
}

bool ModelBuilder::fits(const SlidingWindow& window) const {
  return shape_.size() == 3 && positions(shape_[1], window) > 0 &&
         positions(shape_[2], window) > 0;
}

SampleShape ModelBuilder::target() const {
  const SampleSpec& sample = model_.sample;
  if (sample.is_text) return {sample.shape[0], sample.classes};
  return {sample.classes};
}

Model ModelBuilder::finish() {
  SLUICE_CHECK(shape_ == target(),
               "the model ends in [{}] instead of {} classes",
               fmt::join(shape_, ", "), model_.sample.classes);
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (!model_.layers[i].make)  // else an entry of its own
      model_.layers[i] = finished(i);
  return std::move(model_);
}

LayerSpec ModelBuilder::finished(std::size_t entry) const {
  LayerSpec layer = model_.layers[entry];
  if (layer.name.empty()) layer.name = "no weights";
  layer.make = [parts = parts_[entry]] {
    auto chain = std::make_shared<Chain>();
    for (const Part& part : parts) part(*chain);
    return chain;
  };
  layer.for_input = [requests = requests_[entry]](const SampleShape& input,
                                                  std::int64_t stride) {
    ModelBuilder builder({.shape = input, .classes = 1});
    builder.entry();
    for (const Request& request : requests) request(builder, stride);
    return builder.finished(0);
  };
  return layer;
}

void ModelBuilder::remember(Request request) {
  requests_.back().push_back(std::move(request));
}

void ModelBuilder::step(std::string_view name, double flops, Part part) {
  LayerSpec& layer = model_.layers.back();
  SLUICE_CHECK(!layer.make, "entry '{}' is no chain", layer.name);
  if (!layer.name.empty() && !name.empty()) layer.name += ", ";
  layer.name += name;
  layer.flops += flops;
  layer.output = shape_;
  parts_.back().push_back(std::move(part));
}

void ModelBuilder::slide(std::int64_t channels, const SlidingWindow& window) {
  if (!fits(window)) {
    throw UserError("layer {}: a {}x{} window does not fit on [{}]",
                    model_.layers.size() - 1, window.size, window.size,
                    fmt::join(shape_, ", "));
  }
  shape_ = {channels, positions(shape_[1], window),
            positions(shape_[2], window)};
}

std::int64_t ModelBuilder::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape_) product *= size;
  return product;
}

}  // namespace sluice
