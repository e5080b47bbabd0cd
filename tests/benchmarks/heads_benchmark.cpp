// What a step of each head costs on maps in channels-last order, as a block
// pays it: its forward, the gradients of its parameters and of the features.
// Beside its time stands that of the same step on maps in the other order (the
// two take turns, medians over the rounds), and what was copied from one order
// into the other: the features' gradient should never be.
//
// usage: heads_benchmark [ROUNDS]     default: 15 rounds
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/autograd.h>

#include "auxiliary_heads/heads.h"
#include "lib/base/quantile.h"
#include "lib/memory/allocator.h"
#include "modules/models.h"
#include "tests/benchmarks/ratios.h"
#include "tests/ratchet/operations.h"

namespace sluice {
namespace {

constexpr std::int64_t kSamples = 64;

const Model& model() {
  static const Model resnet = make_model("resnet20", {{3, 32, 32}, 10});
  return resnet;
}

BoundarySite site() {
  Fields none(nullptr, "loss");
  return {
      .block = 1,
      .blocks = 2,
      .layer = 0,
      .features = model().layers[0].output,
      .classes = 10,
      .loss = find_row(losses(), "cross_entropy", "loss").make(none).training,
      .seed = 1,
      .model = &model()};
}

class Step {
 public:
  Step(const HeadRow& row, at::MemoryFormat format) {
    Fields none(nullptr, "head");
    head_ = row.make(none)(site());
    const SampleShape& shape = model().layers[0].output;
    features_ = at::randn({kSamples, shape[0], shape[1], shape[2]})
                    .contiguous(format)
                    .requires_grad_();
    targets_ = head_->parameters();
    targets_.push_back(features_);
  }

  /// Seconds of a step.
  double run() {
    const auto start = std::chrono::steady_clock::now();
    const HeadResult result =
        head_->forward({features_}, {.labels = labels_, .raw_input = images_});
    gradients_ = torch::autograd::grad({result.loss}, targets_, {}, false,
                                       false, /*allow_unused=*/true);
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    return taken.count();
  }

  bool keeps_order() const {
    return gradients_.back().strides() == features_.strides();
  }

 private:
  std::shared_ptr<Head> head_;
  at::Tensor features_;
  at::Tensor labels_ = at::randint(10, {kSamples}, at::kLong);
  at::Tensor images_ = at::rand({kSamples, 3, 32, 32});
  std::vector<at::Tensor> targets_;
  std::vector<at::Tensor> gradients_;
};

void measure(const HeadRow& row, int rounds) {
  Step step(row, at::MemoryFormat::ChannelsLast);
  Step other(row, at::MemoryFormat::Contiguous);
  step.run();
  other.run();
  Operations copies;
  {
    const OperationCount counter;
    step.run();
    copies = counter.so_far();
  }
  std::vector<double> seconds;
  Ratios over;
  for (int round = 0; round < rounds; ++round) {
    seconds.push_back(step.run());
    over.values.push_back(seconds.back() / other.run());
  }
  fmt::print("{:<12} {:>8.2f}  {:<18} {:>13} {:>11.1f}  {}\n", row.name,
             1e3 * median(seconds), over.text(), copies.layout_copies,
             static_cast<double>(copies.copied_bytes) / 1048576,
             step.keeps_order() ? "kept" : "LOST");
  std::fflush(stdout);
}

void run(int rounds) {
  at::set_num_threads(1);
  install_allocator();
  fmt::print("{:<12} {:>8}  {:<18} {:>13} {:>11}  {}\n", "head", "ms",
             "over other order", "layout copies", "MiB copied",
             "order of the gradient");
  for (const HeadRow& row : heads())
    if (row.name != "vocabulary" && row.name != "forward_forward")
      measure(row, rounds);
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  try {
    sluice::run(count > 1 ? std::max(1, std::stoi(arguments[1])) : 15);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
