// A program with an argument of its own before those of Sluice: what shall
// happen. Every process of it adds its command line to a file.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include <torch/nn/modules/linear.h>

#include "experiments/api/sluice.h"

namespace {

/// Forwards after which block 2 fails: only its process makes so many.
constexpr int kCalls = 5;

at::Tensor faulty(const at::Tensor& x, std::string_view fault) {
  static int calls = 0;
  if (++calls < kCalls) return x;
  if (fault == "stop") std::raise(SIGSTOP);
  if (fault == "kill") std::raise(SIGKILL);
  if (fault == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  return x;
}

void note_command_line(int argc, char** argv) {
  std::string line;
  for (int i = 0; i < argc; ++i) line += std::string(argv[i]) + "|";
  std::ofstream("command_lines", std::ios::app) << line + "\n";
}

}  // namespace

int main(int argc, char** argv) {
  note_command_line(argc, argv);
  const std::string fault = argc > 1 ? argv[1] : "none";
  const sluice::NetworkOptions options = {
      .layers = {[] { return torch::nn::Linear(4, 8); },
                 [fault](const at::Tensor& x) { return faulty(x, fault); },
                 [] { return torch::nn::Linear(8, 2); }},
      .example = torch::zeros({1, 4}),
      .cuts = {1},
      .settings = "threads = 1"};
  return sluice::main(argc - 1, argv + 1, options, [&](sluice::Network& net) {
    for (int t = 0; t < 2 * kCalls; ++t) {
      if (fault == "pause" && t == 1)
        std::this_thread::sleep_for(std::chrono::seconds(6));
      net.step(torch::ones({3, 4}), torch::ones({3}, torch::kLong)).loss();
    }
    std::puts("done");
  });
}
