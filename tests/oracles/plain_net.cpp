#include "tests/oracles/plain_net.h"

#include <string>

#include <ATen/ATen.h>

#include "modules/chain.h"
#include "modules/dropout.h"

namespace sluice {
namespace {

/// Names of members become names of Sluice: "layers/0" + "linear" is registered
/// as "layers_0_linear" because LibTorch's names have no dots.
std::string key(std::int64_t layer, const char* member) {
  return "layers_" + std::to_string(layer) + "_" + member;
}

std::string sluice_name(std::string name) {
  for (int underscore = 0; underscore < 2; ++underscore)
    name[name.find('_')] = '.';
  return name;
}

}  // namespace

NamedTensors PlainNet::named() const {
  NamedTensors all;
  for (const auto& item : named_parameters())
    all.emplace_back(sluice_name(item.key()), item.value());
  for (const auto& item : named_buffers())
    all.emplace_back(sluice_name(item.key()), item.value());
  return all;
}

void PlainNet::add_dropout(double p) {
  if (p == 0) return;
  const auto chain = std::make_shared<Chain>();
  chain->add("dropout", std::make_shared<Dropout>(p));
  dropout_ = chain;
}

at::Tensor PlainNet::drop(const at::Tensor& x, std::int64_t layer,
                          std::uint64_t seed, std::int64_t batch) {
  if (!dropout_) return x;
  return dropout_->forward({x}, {.seed = seed, .batch = batch, .layer = layer})
      .at(0);
}

PlainMlp::PlainMlp(std::vector<std::int64_t> widths, bool batch_norm,
                   double dropout) {
  add_dropout(dropout);
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    linears_.push_back(register_module(
        key(layer, "linear"), torch::nn::Linear(widths[i], widths[i + 1])));
    if (batch_norm && i + 2 < widths.size())
      norms_.push_back(register_module(key(layer, "norm"),
                                       torch::nn::BatchNorm1d(widths[i + 1])));
  }
}

at::Tensor PlainMlp::forward(at::Tensor x, std::uint64_t seed,
                             std::int64_t batch) {
  x = x.flatten(1);
  for (std::size_t i = 0; i + 1 < linears_.size(); ++i) {
    x = linears_[i]->forward(x);
    if (!norms_.empty()) x = norms_[i]->forward(x);
    x = drop(x.relu(), static_cast<std::int64_t>(i), seed, batch);
  }
  return linears_.back()->forward(x);
}

PlainConv3::PlainConv3(std::int64_t channels, double dropout) {
  add_dropout(dropout);
  for (std::int64_t i = 0; i < 3; ++i) {
    convs_.push_back(register_module(
        key(i, "conv"),
        torch::nn::Conv2d(
            torch::nn::Conv2dOptions(i == 0 ? 1 : channels, channels, 5)
                .padding(2))));
    norms_.push_back(
        register_module(key(i, "norm"), torch::nn::BatchNorm2d(channels)));
  }
  linear_ = register_module(key(3, "linear"), torch::nn::Linear(channels, 10));
}

at::Tensor PlainConv3::forward(at::Tensor x, std::uint64_t seed,
                               std::int64_t batch) {
  for (std::size_t i = 0; i < 3; ++i) {
    x = norms_[i]->forward(convs_[i]->forward(x)).relu();
    x = i == 0 ? at::max_pool2d(x, 3, 3) : at::avg_pool2d(x, 3, 3);
    x = drop(x, static_cast<std::int64_t>(i), seed, batch);
  }
  return linear_->forward(x.flatten(1));
}

}  // namespace sluice
