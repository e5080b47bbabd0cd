#include "tests/experiments/helpers/training.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "experiments/config/files/toml.h"
#include "experiments/config/reading/read_experiment.h"
#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/engines/virtual_crew.h"

namespace sluice {
namespace {

std::map<std::string, at::Tensor> by_name(const NamedTensors& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace

Experiment small_experiment(const std::string& lines) {
  ConfigNode config = parse_toml(
      "data = {train = 320, test = 64}\nbatch_size = 32\nthreads = 1\n"
      "turns = 20\n",
      "defaults");
  const ConfigNode given = parse_toml(lines, "test.toml");
  for (const auto& [key, value] : std::get<ConfigNode::Table>(given.value))
    config.set(key, value);
  return read_experiment(config, "");
}

/// The coordinator sees what workers write, as in a run.
class Training::Relay final : public Sink {
 public:
  explicit Relay(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}
  void write(const Record& record) override {
    if (coordinator)
      coordinator->write(record);
    else if (sink_)
      sink_->write(record);
  }
  Coordinator* coordinator = nullptr;

 private:
  std::shared_ptr<Sink> sink_;
};

Training::Training(const Experiment& of, std::shared_ptr<Sink> to)
    : experiment(of),
      sink(std::move(to)),
      relay_(sink ? std::make_shared<Relay>(sink) : nullptr) {
  at::set_num_threads(static_cast<int>(experiment.threads));
  const auto probe = make_probe(experiment, relay_);
  std::vector<Ends> ends = memory_ends(experiment);
  for (int seat = 1; seat <= experiment.seats(); ++seat)
    workers.push_back(make_seat(
        experiment, seat, std::move(by_block(ends, seat)), relay_, {}, probe));
}

double Training::run(const Costs& costs,
                     const std::function<void(const TimedAction&)>& seen) {
  Coordinator coordinator(experiment.length, experiment.seats(), sink, nullptr);
  if (relay_) relay_->coordinator = &coordinator;
  Seats borrowed;  // the test looks at them afterwards
  for (const auto& worker : workers)
    borrowed.emplace_back(std::shared_ptr<void>(), worker.get());
  VirtualCrew crew(std::move(borrowed),
                   {.plans = experiment.plans,
                    .capacities = experiment.capacities,
                    .costs = costs,
                    .threads = experiment.threads,
                    .watch = seen},
                   events_for(coordinator));
  run_to_end(crew, coordinator);
  if (relay_) relay_->coordinator = nullptr;
  return crew.seconds();
}

double Training::train(const Costs& costs) {
  return run(costs, watch);
}

Applications Training::train_and_record() {
  Applications applied;
  run({}, [&](const TimedAction& timed) {
    if (timed.action.op != Op::update) return;
    ShownUpdate update{timed.action.turn, timed.action.batch, {}};
    for (const at::Tensor& gradient : block(timed.seat).gradients())
      update.gradients.push_back(gradient.defined() ? gradient.clone()
                                                    : gradient);
    applied[timed.seat].push_back(std::move(update));
  });
  return applied;
}

NamedTensors Training::weights(int replica) const {
  NamedTensors all;
  for (const auto& worker : workers)
    if (worker->replica() == replica)
      for (auto& named : worker->weights()) all.push_back(std::move(named));
  return all;
}

std::string difference(const NamedTensors& left, const NamedTensors& right) {
  const auto others = by_name(right);
  if (left.size() != right.size())
    return fmt::format("{} tensors against {}", left.size(), right.size());
  for (const auto& [name, tensor] : left) {
    const auto other = others.find(name);
    if (other == others.end()) return name + " is missing";
    if (!tensor.equal(other->second))
      return fmt::format("{} differs by {}", name,
                         (tensor - other->second).abs().max().item<double>());
  }
  return "";
}

namespace {

double gap(const at::Tensor& left, const at::Tensor& right) {
  const double largest = (left - right).abs().max().item<double>();
  // A comparison with NaN would let any test pass.
  SLUICE_CHECK(!std::isnan(largest), "a difference is not a number");
  return largest;
}

}  // namespace

double distance(const NamedTensors& left, const NamedTensors& right) {
  const auto others = by_name(right);
  double largest = 0;
  for (const auto& [name, tensor] : left)
    largest = std::max(largest, gap(tensor, others.at(name)));
  return largest;
}

namespace {

bool same(const at::Tensor& left, const at::Tensor& right) {
  if (!left.defined() || !right.defined())
    return left.defined() == right.defined();
  return left.equal(right);
}

}  // namespace

std::string difference(const std::vector<ShownUpdate>& left,
                       const std::vector<ShownUpdate>& right) {
  if (left.size() != right.size())
    return fmt::format("{} updates against {}", left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].batch != right[i].batch)
      return fmt::format("update {} applies batch {} against {}", i,
                         left[i].batch, right[i].batch);
    for (std::size_t j = 0; j < left[i].gradients.size(); ++j)
      if (!same(left[i].gradients[j], right[i].gradients.at(j)))
        return fmt::format("gradient {} of batch {}", j, left[i].batch);
  }
  return "";
}

double distance(const std::vector<ShownUpdate>& left,
                const std::vector<ShownUpdate>& right) {
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    for (std::size_t j = 0; j < left[i].gradients.size(); ++j)
      largest = std::max(
          largest, gap(left[i].gradients[j], right.at(i).gradients.at(j)));
  return largest;
}

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

}  // namespace sluice
