#include "tests/oracles/plain_replicas.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <ostream>
#include <utility>

#include <ATen/ATen.h>
#include <torch/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "experiments/runs/seats/seat_sources.h"

namespace sluice::plain_replicas {

/// One network: three linear layers, of which a cut leaves the first below it,
/// and the head there.
class PlainNet {
 public:
  PlainNet(int blocks, bool is_local) : is_cut_(is_local && blocks > 1) {
    for (const char* part : {"weight", "bias"}) {
      add(1, "layers.0.linear", *first_, part);
      add(blocks, "layers.1.linear", *second_, part);
      add(blocks, "layers.2.linear", *third_, part);
      if (is_cut_) add(1, "heads.0.classifier", *head_, part);
    }
  }

  /// The loss whose gradient a batch gives. With a local loss nothing passes
  /// the cut downwards, and the head's loss is all that the layer below it and
  /// the head learn from.
  at::Tensor loss(const at::Tensor& inputs, const at::Tensor& labels) {
    const at::Tensor features = at::relu(first_(inputs.flatten(1)));
    if (!is_cut_) return at::cross_entropy_loss(above(features), labels);
    return at::cross_entropy_loss(head_(features), labels) +
           at::cross_entropy_loss(above(features.detach()), labels);
  }

  NamedTensors& of_block(int block) { return named_[block]; }
  const std::map<int, NamedTensors>& named() const { return named_; }

 private:
  at::Tensor above(const at::Tensor& features) {
    return third_(at::relu(second_(features)));
  }

  void add(int block, const std::string& name, torch::nn::Module& layer,
           const char* part) {
    named_[block].emplace_back(name + "." + part,
                               layer.named_parameters()[part]);
  }

  bool is_cut_;
  torch::nn::Linear first_{784, 24};
  torch::nn::Linear second_{24, 20};
  torch::nn::Linear third_{20, 10};
  torch::nn::Linear head_{24, 10};
  std::map<int, NamedTensors> named_;
};

namespace {

Tensors gradients_at(PlainNet& net, const at::Tensor& inputs,
                     const at::Tensor& labels, std::int64_t whole) {
  Tensors weights;
  for (const auto& [block, named] : net.named())
    for (const auto& [name, weight] : named) weights.push_back(weight);
  const double share =
      static_cast<double>(labels.size(0)) / static_cast<double>(whole);
  return torch::autograd::grad({net.loss(inputs, labels) * share}, weights);
}

}  // namespace

void PrintTo(const Method& method, std::ostream* out) {
  *out << method.name;
}

PlainReplicas::PlainReplicas(const Training& of, const Method& method,
                             int replicas, const MakeMeeting& make)
    : method_(method), source_(training_source(of.experiment)) {
  for (int replica = 0; replica < replicas; ++replica)
    nets_.push_back(first_net(of));
  for (int block = 1; block <= of.experiment.blocks(); ++block) {
    for (const auto& net : nets_)
      members_[block].emplace_back(net->of_block(block));
    meetings_[block] = make(members_[block]);
  }
}

void PlainReplicas::train() {
  std::vector<Tensors> late;  // block 1's gradients of the turn before
  for (std::int64_t turn = 0; turn < kTurns; ++turn) {
    for (const auto& [block, meeting] : meetings_)
      meeting->look_ahead(members_.at(block));
    std::map<int, std::vector<Tensors>> gradients = gradients_of(turn);
    for (const auto& [block, meeting] : meetings_)
      meeting->look_back(members_.at(block));
    if (method_.is_delayed && members_.size() > 1)
      std::swap(gradients[1], late);
    for (const auto& [block, of_block] : gradients) update(block, of_block);
  }
  if (method_.drains) update(1, late);
}

NamedTensors PlainReplicas::weights(int replica) const {
  NamedTensors all;
  for (const auto& [block, named] :
       nets_.at(static_cast<std::size_t>(replica - 1))->named())
    for (const auto& [name, weight] : named)
      all.emplace_back(name, weight.detach());
  return all;
}

std::shared_ptr<PlainNet> PlainReplicas::first_net(const Training& of) const {
  const at::NoGradGuard no_grad;
  auto net =
      std::make_shared<PlainNet>(of.experiment.blocks(), method_.is_local);
  const NamedTensors first = of.weights();
  const std::map<std::string, at::Tensor> by_name(first.begin(), first.end());
  for (int block = 1; block <= of.experiment.blocks(); ++block)
    for (auto& [name, weight] : net->of_block(block))
      weight.copy_(by_name.at(name));
  return net;
}

std::map<int, std::vector<Tensors>> PlainReplicas::gradients_of(
    std::int64_t turn) {
  std::map<int, std::vector<Tensors>> all;
  const auto replicas = static_cast<std::int64_t>(nets_.size());
  std::vector<Batch> batches;
  double samples = 0;
  for (std::int64_t r = 0; r < replicas; ++r) {
    batches.push_back(source_->batch(turn * replicas + r));
    samples += static_cast<double>(batches.back().labels.size(0));
  }
  for (std::size_t r = 0; r < nets_.size(); ++r) {
    PlainNet& net = *nets_[r];
    const auto own = static_cast<double>(batches[r].labels.size(0));
    const double weight = meetings_.at(1)->counts_samples()
                              ? static_cast<double>(replicas) * own / samples
                              : 1;
    const Tensors gradients = sum_of_parts(net, batches[r], weight);
    auto next = gradients.begin();
    for (const auto& [block, named] : net.named()) {
      const auto end = next + std::ssize(named);
      all[block].emplace_back(next, end);
      next = end;
    }
  }
  return all;
}

Tensors PlainReplicas::sum_of_parts(PlainNet& net, const Batch& batch,
                                    double weight) const {
  const std::int64_t whole = batch.labels.size(0);
  const std::int64_t size = kBatchSize / method_.micro_batches;
  Tensors sums;
  for (std::int64_t at = 0; at < whole; at += size) {
    const std::int64_t end = std::min(at + size, whole);
    const auto part = gradients_at(net, batch.inputs.slice(0, at, end),
                                   batch.labels.slice(0, at, end), whole);
    if (sums.empty()) sums.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i)
      sums[i] =
          sums[i].defined() ? sums[i] + part[i] * weight : part[i] * weight;
  }
  return sums;
}

void PlainReplicas::update(int block, const std::vector<Tensors>& gradients) {
  const at::NoGradGuard no_grad;
  if (!gradients.empty())
    meetings_.at(block)->update(members_.at(block), gradients);
}

}  // namespace sluice::plain_replicas
