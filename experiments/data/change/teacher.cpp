#include "experiments/data/change/teacher.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "experiments/data/samples/changed_samples.h"
#include "lib/base/error.h"
#include "lib/checkpoints/safetensors.h"

namespace sluice {
namespace {

const at::Tensor& found(const NamedTensors& tensors, const char* name,
                        const std::string& path) {
  const auto at =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const auto& named) { return named.first == name; });
  if (at != tensors.end()) return at->second;
  throw UserError(
      "data.teacher: {} has no tensor '{}': write it with `sluice eval RUN "
      "--train --logits FILE --samples N`",
      path, name);
}

class TaughtSamples final : public RelabelledSamples {
 public:
  TaughtSamples(std::shared_ptr<const Samples> of, const Teacher& teacher,
                std::int64_t classes)
      : RelabelledSamples(std::move(of)), path_(teacher.logits) {
    const NamedTensors tensors =
        read_safetensors(path_, [](std::string_view name) {
          return name == "logits" || name == "labels";
        });
    const at::Tensor& logits = found(tensors, "logits", path_);
    labels_ = found(tensors, "labels", path_);
    if (logits.dim() != 2 || logits.size(0) != of_->size() ||
        logits.size(1) != classes || labels_.numel() != of_->size())
      throw UserError(
          "data.teacher: {} has logits [{}], and the training split has {} "
          "samples of {} classes: write those of all its samples (`sluice eval "
          "--train --logits FILE --samples {}`)",
          path_, fmt::join(logits.sizes(), ", "), of_->size(), classes,
          of_->size());
    const at::Tensor own = at::one_hot(labels_, classes).to(at::kFloat);
    targets_ = at::softmax(logits.to(at::kFloat) / teacher.temperature, 1) *
                   teacher.weight +
               own * (1 - teacher.weight);
  }

 private:
  Batch changed(Batch batch, std::span<const std::int64_t> indices,
                EpochKey key) const override {
    if (!key.augmented || indices.empty()) return batch;
    const at::Tensor rows = at::tensor(
        at::ArrayRef<std::int64_t>(indices.data(), indices.size()), at::kLong);
    if (!labels_.index_select(0, rows).equal(batch.labels))
      throw UserError(
          "data.teacher: {} is of other samples, or of others in this order: "
          "the labels differ; write it from a run with the same [data] and "
          "limit",
          path_);
    batch.labels = targets_.index_select(0, rows);
    return batch;
  }

  std::string path_;
  at::Tensor labels_;   // [size], int64
  at::Tensor targets_;  // [size, classes]
};

}  // namespace

void Teacher::describe(Fields& fields) {
  fields.key(
      "teacher", logits,
      {.text = "safetensors file with a teacher's logits of the training "
               "split, which `sluice eval RUN --train --logits FILE "
               "--samples N` writes: its softmax is what samples are "
               "labelled with (distillation); empty: no teacher"});
  fields.key("teacher_temperature", temperature,
             {.text = "by which a teacher's logits are divided; give the loss "
                      "the same temperature",
              .min = 1e-3,
              .max = 1e3});
  fields.key("teacher_weight", weight,
             {.text = "share of the teacher in a label, beside the class",
              .min = 0,
              .max = 1});
}

DataSet with_teacher(DataSet data, const Teacher& teacher) {
  if (teacher.logits.empty()) return data;
  if (data.sample.is_text || data.sample.targets != Targets::classes)
    throw UserError(
        "data.teacher labels images of one class each, and the targets of this "
        "data set are {}: leave it out",
        data.sample.is_text                      ? "tokens"
        : data.sample.targets == Targets::shares ? "shares (data.mixup)"
                                                 : "numbers");
  const Split train = data.train;
  const std::int64_t classes = data.sample.classes;
  data.train = {train.size(), [train, teacher, classes] {
                  return std::make_shared<TaughtSamples>(train.samples(),
                                                         teacher, classes);
                }};
  data.sample.targets = Targets::shares;
  data.files.push_back(teacher.logits);
  return data;
}

}  // namespace sluice
