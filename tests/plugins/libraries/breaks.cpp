// A plug-in whose data set breaks in one of several ranks, by no error of ours.
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/ATen.h>

#include "experiments/plugins/plugin.h"

namespace {
using namespace sluice;

struct Zeros final : Samples {
  std::int64_t size() const override { return 64; }
  std::int64_t position(std::int64_t i, EpochKey) const override { return i; }
  Batch batch(std::span<const std::int64_t> indices, EpochKey) const override {
    return {.inputs = at::zeros({std::ssize(indices), 2}),
            .labels = at::zeros({std::ssize(indices)}, at::kLong)};
  }
};

MakeDataSet breaking(Fields& options) {
  std::string rank = "0";
  options.key("rank", rank, {.text = "which breaks"});
  return [=](const std::string&) -> DataSet {
    const char* own = std::getenv("RANK");  // NOLINT(concurrency-mt-unsafe)
    if (own != nullptr && own == rank) throw std::runtime_error("it broke");
    const Split split(64, [] { return std::make_shared<Zeros>(); });
    return {.sample = {{2}, 2}, .train = split, .test = split};
  };
}
}  // namespace

SLUICE_PLUGIN(plugin) {
  plugin.data_set({"breaking_data", "breaks in a rank", breaking});
}
