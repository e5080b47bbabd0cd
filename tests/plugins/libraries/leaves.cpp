// A plug-in that ends its process, where LEAVES says: in an initialiser, in its
// registration, or in a turn; by the call that BY says.
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include "experiments/plugins/plugin.h"

namespace {
using namespace sluice;

bool says(const char* variable, std::string_view value) {
  const char* own = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return own != nullptr && own == value;
}

/// Whether a thread of the process is at work, and may use what exit()
/// destroys.
bool is_in_a_turn = false;

/// Is destroyed by exit() before what was there when the plug-in was loaded.
struct UsedByThreads {
  ~UsedByThreads() {
    if (is_in_a_turn) std::raise(SIGSEGV);
  }
} used_by_threads;

void leave() {
  if (says("BY", "exit")) std::exit(0);    // NOLINT(concurrency-mt-unsafe)
  if (says("BY", "exit_3")) std::exit(3);  // NOLINT(concurrency-mt-unsafe)
  if (says("BY", "quick_exit")) std::quick_exit(0);
  if (says("BY", "_exit")) ::_exit(0);
  if (says("BY", "_Exit")) std::_Exit(0);
  if (says("BY", "fault")) std::raise(SIGSEGV);
}

struct Initialiser {
  Initialiser() {
    if (says("LEAVES", "initialiser")) leave();
  }
} initialiser;

struct Zeros final : Samples {
  std::int64_t size() const override { return 64; }
  std::int64_t position(std::int64_t i, EpochKey) const override { return i; }
  Batch batch(std::span<const std::int64_t> indices, EpochKey) const override {
    return {.inputs = at::zeros({std::ssize(indices), 2}),
            .labels = at::zeros({std::ssize(indices)}, at::kLong)};
  }
};

struct LeavingHead final : Head {
  explicit LeavingHead(const BoundarySite& site) : loss_(site.loss) {
    linear_ = torch::nn::Linear(site.features[0], site.classes);
    register_module("linear", linear_);
    initialise_parameters(*this, head_key(site, "leaving_head"));
  }
  HeadResult forward(const Tensors& features,
                     const HeadInputs& beside) override {
    if (++turns_ == 3 && says("LEAVES", "turn")) {
      is_in_a_turn = true;
      leave();
    }
    const at::Tensor logits = linear_(features[0]);
    return {loss_(logits, beside.labels), logits};
  }
  int turns_ = 0;
  Loss loss_;
  torch::nn::Linear linear_ = nullptr;
};

MakeHead leaving(Fields&) {
  return [](const BoundarySite& site) {
    return std::make_shared<LeavingHead>(site);
  };
}

MakeDataSet zeros(Fields&) {
  return [](const std::string&) -> DataSet {
    const Split split(64, [] { return std::make_shared<Zeros>(); });
    return {.sample = {{2}, 2}, .train = split, .test = split};
  };
}
}  // namespace

SLUICE_PLUGIN(plugin) {
  if (says("LEAVES", "registration")) leave();
  plugin.data_set({"leaving_data", "zeros", zeros});
  plugin.head({"leaving_head", "ends its process", leaving});
}
