// The C++ side of handoff.py: a program of one's own that trains a net through
// the API, cut into blocks with local heads, and prints samples per second of
// the steps after the first ones. Its workers, which run this main() too, get
// what it trains from the environment: HANDOFF_CASE, HANDOFF_BLOCKS,
// HANDOFF_STEPS; what else the command line says are settings of the network.
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/torch.h>

#include "experiments/api/sluice.h"
#include "modules/transformer.h"

namespace {

namespace nn = torch::nn;

constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kContext = 64;
constexpr std::int64_t kVocabulary = 65;
constexpr int kBatches = 16;

struct Case {
  std::vector<sluice::LayerFactory> layers;
  std::vector<std::int64_t> cuts;
  std::string head;
  std::string optimizer;
  torch::Tensor inputs;  // kBatches batches
  torch::Tensor labels;
};

std::string asked(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr)
    throw sluice::UserError("{} is not set: start this by handoff.py", name);
  return value;
}

Case conv(bool two) {
  Case of;
  for (const auto& [from, to] : {std::pair{3, 128}, {128, 32}, {32, 256}}) {
    of.layers.emplace_back([from = from, to = to] {
      return nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1));
    });
    of.layers.emplace_back([to = to] { return nn::BatchNorm2d(to); });
    of.layers.emplace_back(torch::relu);
    of.layers.emplace_back([] { return nn::MaxPool2d(2); });
  }
  of.layers.emplace_back([] { return nn::Flatten(); });
  of.layers.emplace_back([] { return nn::Linear(256 * 4 * 4, 10); });
  of.cuts =
      two ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{4, 8, 12};
  of.head = "linear";
  of.optimizer = "sgd, lr = 0.01, momentum = 0.9";
  of.inputs = torch::randn({kBatches, 64, 3, 32, 32});
  of.labels = torch::randint(10, {kBatches, 64});
  return of;
}

Case mlp(bool two) {
  Case of;
  of.layers.emplace_back([] { return nn::Flatten(); });
  for (const std::int64_t inputs : {784, 1024, 1024}) {
    of.layers.emplace_back([inputs] { return nn::Linear(inputs, 1024); });
    of.layers.emplace_back(torch::relu);
  }
  of.layers.emplace_back([] { return nn::Linear(1024, 10); });
  of.cuts =
      two ? std::vector<std::int64_t>{5} : std::vector<std::int64_t>{3, 5, 7};
  of.head = "linear";
  of.optimizer = "adam, lr = 1e-4";
  of.inputs = torch::randn({kBatches, 128, 1, 28, 28});
  of.labels = torch::randint(10, {kBatches, 128});
  return of;
}

struct EmbeddingsImpl : nn::Module {
  EmbeddingsImpl()
      : token(register_module("token", nn::Embedding(kVocabulary, kWidth))),
        position(register_module("position", nn::Embedding(kContext, kWidth))) {
  }
  torch::Tensor forward(const torch::Tensor& tokens) {
    return token(tokens) + position->weight;
  }
  nn::Embedding token;
  nn::Embedding position;
};
TORCH_MODULE(Embeddings);

Case gpt(bool two) {
  static constexpr std::int64_t kLayers = 4;  // bound by reference below
  Case of;
  of.layers.emplace_back([] { return Embeddings(); });
  for (std::int64_t i = 0; i < kLayers; ++i)
    of.layers.emplace_back([] {
      return std::make_shared<sluice::TransformerLayer>(
          sluice::TransformerOptions{.width = kWidth, .heads = 4}, kLayers);
    });
  of.layers.emplace_back(
      [] { return nn::LayerNorm(nn::LayerNormOptions({kWidth})); });
  of.layers.emplace_back([] {
    return nn::Linear(nn::LinearOptions(kWidth, kVocabulary).bias(false));
  });
  of.cuts =
      two ? std::vector<std::int64_t>{3} : std::vector<std::int64_t>{2, 3, 4};
  of.head = "vocabulary";
  of.optimizer = "adamw, lr = 1e-4";
  of.inputs = torch::randint(kVocabulary, {kBatches, 12, kContext});
  of.labels = torch::randint(kVocabulary, {kBatches, 12, kContext});
  return of;
}

Case asked_case() {
  const std::string name = asked("HANDOFF_CASE");
  const bool two = asked("HANDOFF_BLOCKS") == "2";
  if (name == "conv") return conv(two);
  if (name == "mlp") return mlp(two);
  if (name == "gpt") return gpt(two);
  throw sluice::UserError("no case '{}'; there are: conv, mlp, gpt", name);
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(1);
  const Case of = asked_case();
  const sluice::NetworkOptions options = {
      .layers = of.layers,
      .example = of.inputs[0].narrow(0, 0, 2),
      .cuts = of.cuts,
      .boundaries = {fmt::format("local_loss, head = {{name = '{}'}}",
                                 of.head)},
      .optimizer = of.optimizer,
      .settings = "threads = 1\nengine = 'processes'"};
  return sluice::main(argc, argv, options, [&](sluice::Network& net) {
    torch::set_num_threads(1);
    const int steps = std::stoi(asked("HANDOFF_STEPS"));
    // step() returns when few enough turns are under way: from one return to
    // another the blocks are as full of batches as they were.
    const auto train = [&] {
      for (int t = 0; t < steps; ++t)
        net.step(of.inputs[t % kBatches], of.labels[t % kBatches]);
    };
    train();
    const auto start = std::chrono::steady_clock::now();
    train();
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    net.drain();
    fmt::print("{}\n",
               steps * static_cast<double>(of.inputs.size(1)) / taken.count());
  });
}
