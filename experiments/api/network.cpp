#include "experiments/api/network.h"

#include <limits>
#include <utility>

#include "experiments/api/network_core.h"
#include "lib/metrics/records.h"

namespace sluice {
namespace {

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Network::Network(const NetworkOptions& options)
    : Network(std::make_unique<NetworkCore>(options, config_of(options),
                                            WorkerProgram{})) {}

Network::Network(std::unique_ptr<NetworkCore> core) : core_(std::move(core)) {}

Network::~Network() = default;

Step Network::step(const at::Tensor& inputs, const at::Tensor& labels) {
  return core_->step(inputs, labels);
}

void Network::drain() {
  core_->drain();
}

at::Tensor Network::forward(const at::Tensor& inputs) {
  return core_->forward(inputs);
}

Evaluation Network::evaluate(const at::Tensor& inputs,
                             const at::Tensor& labels) {
  return core_->evaluate(inputs, labels);
}

NamedTensors Network::weights() {
  return core_->weights();
}

std::string Network::save(const std::string& folder) {
  return core_->save(folder);
}

void Network::load(const std::string& path) {
  core_->load(path);
}

void Network::record(const Evaluation& test) {
  core_->record(test, nullptr);
}

void Network::record(const Evaluation& test, const Evaluation& validation) {
  core_->record(test, &validation);
}

void Network::finish() {
  core_->finish();
}

std::int64_t Network::turns() const {
  return core_->turns();
}

int Network::blocks() const {
  return core_->blocks();
}

int Network::replicas() const {
  return core_->replicas();
}

Record Step::record(int block, int replica) const {
  network_->check_figures_of(block, replica);
  network_->wait(network_->given_ - grant_ - 1);
  const auto found = records_->find({block, replica});
  return found == records_->end() ? Record{} : found->second;
}

template <class Figure>
double Step::mean_of(int block, const Figure& figure) const {
  double sum = 0;
  int count = 0;
  for (int replica = 1; replica <= network_->replicas(); ++replica)
    if (const auto value =
            figure(record(block, replica).read<records::Train>())) {
      sum += *value;
      ++count;
    }
  return count == 0 ? kNoFigure : sum / count;
}

double Step::loss(int block) const {
  return mean_of(block, [](const auto& train) { return train.loss; });
}

double Step::accuracy(int block) const {
  return mean_of(block, [](const auto& train) { return train.accuracy; });
}

double Step::loss() const {
  return loss(network_->blocks());
}

double Step::accuracy() const {
  return accuracy(network_->blocks());
}

}  // namespace sluice
