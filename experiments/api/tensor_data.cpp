#include "experiments/api/tensor_data.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "experiments/data/samples/samples.h"
#include "lib/base/error.h"
#include "lib/tensors/generator_guard.h"

namespace sluice {
namespace {

class TensorSamples final : public Samples {
 public:
  explicit TensorSamples(LabelledTensors all) : all_(std::move(all)) {}

  std::int64_t size() const override { return all_.inputs.size(0); }
  std::int64_t position(std::int64_t index, EpochKey) const override {
    return index;
  }
  Batch batch(std::span<const std::int64_t> indices, EpochKey) const override {
    const at::Tensor which = at::empty({std::ssize(indices)}, at::kLong);
    std::copy(indices.begin(), indices.end(),
              which.mutable_data_ptr<std::int64_t>());
    return {.inputs = all_.inputs.index_select(0, which),
            .labels = all_.labels.index_select(0, which)};
  }

 private:
  LabelledTensors all_;
};

bool is_of_numbers(const at::Tensor& labels) {
  return labels.defined() && labels.dim() == 2 &&
         labels.scalar_type() == at::kFloat;
}

void check_split(const LabelledTensors& split, const SampleSpec& sample,
                 std::string_view name) {
  const auto reject = [&](std::string_view text) {
    throw UserError("data of the program: {}: {}", name, text);
  };
  const at::Tensor& inputs = split.inputs;
  const at::Tensor& labels = split.labels;
  if (!inputs.defined() || !labels.defined() || inputs.dim() < 2 ||
      inputs.size(0) == 0)
    reject("expected inputs [N, ...], N above 0, and labels");
  if (inputs.sizes().slice(1) != at::IntArrayRef(sample.shape))
    reject("its inputs have other sizes than those of train");
  if (inputs.scalar_type() != (sample.is_text ? at::kLong : at::kFloat))
    reject("inputs are float32, of texts int64, in all splits alike");
  if (sample.targets == Targets::values) {
    if (!is_of_numbers(labels) || labels.size(0) != inputs.size(0) ||
        labels.size(1) != sample.classes)
      reject(fmt::format("expected {} numbers, float32, for each input",
                         sample.classes));
    return;
  }
  const bool fits = sample.is_text
                        ? labels.sizes() == inputs.sizes()
                        : labels.dim() == 1 && labels.size(0) == inputs.size(0);
  if (!fits || labels.scalar_type() != at::kLong)
    reject("expected a label, int64, for each input; of texts, each token");
  if (labels.min().item<std::int64_t>() < 0 ||
      labels.max().item<std::int64_t>() >= sample.classes)
    reject(fmt::format("labels must be from 0 to {}, as classes = {}",
                       sample.classes - 1, sample.classes));
}

Split split_of_tensors(const LabelledTensors& tensors, const SampleSpec& sample,
                       std::string_view name) {
  check_split(tensors, sample, name);
  const LabelledTensors all = {tensors.inputs.detach().cpu().contiguous(),
                               tensors.labels.detach().cpu().contiguous()};
  return {all.inputs.size(0),
          [all] { return std::make_shared<TensorSamples>(all); }};
}

}  // namespace

DataSet data_set_of(const std::function<TensorSplits()>& make) {
  const GeneratorGuard kept;
  const at::NoGradGuard no_grad;
  const TensorSplits splits = make();
  const at::Tensor& inputs = splits.train.inputs;
  DataSet set;
  if (inputs.defined() && inputs.dim() > 1)
    set.sample = {.shape = inputs.sizes().slice(1).vec(),
                  .classes = splits.classes,
                  .is_text = inputs.scalar_type() == at::kLong};
  if (is_of_numbers(splits.train.labels)) {
    set.sample.targets = Targets::values;
    set.sample.classes = splits.train.labels.size(1);
  }
  set.train = split_of_tensors(splits.train, set.sample, "train");
  set.test = split_of_tensors(splits.test, set.sample, "test");
  if (splits.validation.inputs.defined())
    set.validation =
        split_of_tensors(splits.validation, set.sample, "validation");
  return set;
}

}  // namespace sluice
