// What the caching allocator brings: plain LibTorch training loops, one thread,
// with LibTorch's allocator and with ours.
//
// usage: allocator_benchmark [ROUNDS] [CASE]
//
// Every measurement is a process of its own. Both allocators take turns, and
// who is first too, so that both see the same machine; the ratio is the median
// of those of the rounds. Time is that of the CPU, the kernel's included: on a
// machine with nothing else to do it is that of the clock, on a busy one it
// means more. Page faults are those of the timed steps.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/pooling.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "lib/memory/allocator.h"
#include "tests/benchmarks/children.h"
#include "tests/benchmarks/ratios.h"

namespace sluice {
namespace {

struct Training {
  std::function<void()> step;
  int steps = 0;  // to be timed
};

// One step on inputs and labels that stay; SGD as LibTorch has it.
Training training_of(torch::nn::Sequential net, at::Tensor inputs,
                     at::Tensor labels, int steps) {
  auto optimizer = std::make_shared<torch::optim::SGD>(
      net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  return {[=]() mutable {
            optimizer->zero_grad();
            at::cross_entropy_loss(net->forward(inputs), labels).backward();
            optimizer->step();
          },
          steps};
}

Training conv_net(std::int64_t kernel, at::MemoryFormat format) {
  torch::nn::Sequential net;
  std::int64_t channels = 3;
  for (int i = 0; i < 3; ++i) {
    net->push_back(torch::nn::Conv2d(
        torch::nn::Conv2dOptions(channels, 128, kernel).padding(kernel / 2)));
    net->push_back(torch::nn::BatchNorm2d(128));
    net->push_back(torch::nn::ReLU());
    net->push_back(torch::nn::MaxPool2d(2));
    channels = 128;
  }
  net->push_back(torch::nn::Flatten());
  net->push_back(torch::nn::Linear(128 * 4 * 4, 10));
  const torch::NoGradGuard no_grad;
  for (at::Tensor& weight : net->parameters()) {
    if (weight.dim() == 4) weight.set_data(weight.contiguous(format));
  }
  return training_of(net, at::randn({64, 3, 32, 32}).contiguous(format),
                     at::randint(10, {64}, at::kLong), 4);
}

Training mlp() {
  torch::nn::Sequential net;
  std::int64_t width = 784;
  for (int i = 0; i < 3; ++i) {
    net->push_back(torch::nn::Linear(width, 1024));
    net->push_back(torch::nn::ReLU());
    width = 1024;
  }
  net->push_back(torch::nn::Linear(1024, 10));
  return training_of(net, at::randn({128, 784}),
                     at::randint(10, {128}, at::kLong), 60);
}

constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kTokens = 65;

struct TransformerLayerImpl final : torch::nn::Module {
  TransformerLayerImpl() {
    register_module("norm_1", norm_1);
    register_module("norm_2", norm_2);
    register_module("attention_in", attention_in);
    register_module("attention_out", attention_out);
    register_module("widen", widen);
    register_module("narrow", narrow);
  }

  // x: [N, T, C]
  at::Tensor forward(at::Tensor x) {
    const std::int64_t n = x.size(0);
    const std::int64_t t = x.size(1);
    const at::Tensor parts = attention_in(norm_1(x))
                                 .view({n, t, 3, kHeads, kWidth / kHeads})
                                 .permute({2, 0, 3, 1, 4});
    const at::Tensor seen = at::scaled_dot_product_attention(
        parts[0], parts[1], parts[2], {}, 0, /*is_causal=*/true);
    x = x + attention_out(seen.transpose(1, 2).reshape({n, t, kWidth}));
    return x + narrow(at::gelu(widen(norm_2(x))));
  }

  torch::nn::LayerNorm norm_1{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::LayerNorm norm_2{torch::nn::LayerNormOptions({kWidth})};
  torch::nn::Linear attention_in{kWidth, 3 * kWidth};
  torch::nn::Linear attention_out{kWidth, kWidth};
  torch::nn::Linear widen{kWidth, 4 * kWidth};
  torch::nn::Linear narrow{4 * kWidth, kWidth};
};
TORCH_MODULE(TransformerLayer);

Training gpt() {
  torch::nn::Sequential net(torch::nn::Embedding(kTokens, kWidth));
  for (int i = 0; i < 4; ++i) net->push_back(TransformerLayer());
  net->push_back(torch::nn::Linear(kWidth, kTokens));
  auto optimizer =
      std::make_shared<torch::optim::Adam>(net->parameters(), 1e-3);
  const at::Tensor text = at::randint(kTokens, {16, 129}, at::kLong);
  const at::Tensor inputs = text.narrow(1, 0, 128).contiguous();
  const at::Tensor labels = text.narrow(1, 1, 128).reshape({-1});
  return {[=]() mutable {
            optimizer->zero_grad();
            const at::Tensor scores = net->forward(inputs).flatten(0, 1);
            at::cross_entropy_loss(scores, labels).backward();
            optimizer->step();
          },
          15};
}

struct Case {
  std::string_view name;
  Training (*make)();
};

constexpr Case kCases[] = {
    {"conv_5x5", [] { return conv_net(5, at::MemoryFormat::Contiguous); }},
    {"conv_5x5_channels_last",
     [] { return conv_net(5, at::MemoryFormat::ChannelsLast); }},
    {"conv_3x3", [] { return conv_net(3, at::MemoryFormat::Contiguous); }},
    {"conv_3x3_channels_last",
     [] { return conv_net(3, at::MemoryFormat::ChannelsLast); }},
    {"mlp", mlp},
    {"gpt", gpt},
};

struct Measurement {
  double seconds = 0;  // per step
  double faults = 0;   // per step
  double resident_mib = 0;
};

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

double peak_resident_mib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// The process that measures; prints what measured() reads.
int measure(const Case& of, bool install) {
  at::set_num_threads(1);
  if (install && !install_allocator()) return EXIT_FAILURE;
  const Training training = of.make();
  for (int i = 0; i < 2; ++i) training.step();
  const long faults = page_faults();
  const double start = cpu_seconds();
  for (int i = 0; i < training.steps; ++i) training.step();
  fmt::print("{} {} {}\n", (cpu_seconds() - start) / training.steps,
             static_cast<double>(page_faults() - faults) / training.steps,
             peak_resident_mib());
  return EXIT_SUCCESS;
}

Measurement measured(const Case& of, bool install) {
  const std::vector<double> numbers = measured_by_child(
      fmt::format("--measure {} {}", of.name, install ? "ours" : "torch"), 3);
  return {numbers[0], numbers[1], numbers[2]};
}

void compare(const Case& of, int rounds) {
  Ratios ratios;
  Measurement theirs;
  Measurement ours;
  for (int round = 0; round < rounds; ++round) {
    const bool ours_first = round % 2 == 1;
    (ours_first ? ours : theirs) = measured(of, ours_first);
    (ours_first ? theirs : ours) = measured(of, !ours_first);
    ratios.values.push_back(theirs.seconds / ours.seconds);
  }
  fmt::print(
      "{:<22} {:<20} {:8.4f} {:8.4f}   {:8.0f} {:6.1f}   {:5.0f} {:5.0f}\n",
      of.name, ratios.text_with_range(), theirs.seconds, ours.seconds,
      theirs.faults, ours.faults, theirs.resident_mib, ours.resident_mib);
  std::fflush(stdout);
}

int run(const std::vector<std::string_view>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "--measure") {
    for (const Case& each : kCases) {
      if (each.name == arguments[1]) {
        return measure(each, arguments[2] == "ours");
      }
    }
    return EXIT_FAILURE;
  }
  const int rounds =
      arguments.empty() ? 5 : std::max(1, std::atoi(arguments[0].data()));
  fmt::print(
      "case                    faster (range)         s/step, LibTorch and ours"
      "   faults/step   peak RSS, MiB\n");
  for (const Case& each : kCases) {
    if (arguments.size() < 2 || each.name == arguments[1]) {
      compare(each, rounds);
    }
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  try {
    return sluice::run({arguments + 1, arguments + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
