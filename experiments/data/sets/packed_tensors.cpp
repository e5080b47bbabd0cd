#include "experiments/data/sets/packed_tensors.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <fmt/format.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/samples/label_counts.h"
#include "experiments/data/samples/samples.h"
#include "experiments/data/samples/validation.h"
#include "experiments/data/sets/stored_array.h"
#include "lib/base/error.h"
#include "lib/checkpoints/safetensors_header.h"
#include "lib/tensors/dtypes.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostClasses = 1'000'000'000;

/// The arrays of one split.
struct StoredPair {
  StoredArray inputs = {};
  StoredArray targets = {};
};

void check_pair(const StoredPair& pair) {
  const PackedArray& inputs = pair.inputs.array;
  if (inputs.sizes.size() != 2 && inputs.sizes.size() != 4)
    throw UserError(
        "{}: has the shape {}; inputs are [N, C] or, of images, [N, C, H, W]",
        pair.inputs.name, pair.inputs.sizes_text());
  if (std::find(inputs.sizes.begin(), inputs.sizes.end(), 0) !=
      inputs.sizes.end())
    throw UserError("{}: has the shape {}, in which there is nothing",
                    pair.inputs.name, pair.inputs.sizes_text());
  const PackedArray& targets = pair.targets.array;
  if (targets.sizes.empty() || targets.sizes.size() > 2 ||
      targets.sizes.back() == 0)
    throw UserError("{}: has the shape {}; targets are [N] or [N, D]",
                    pair.targets.name, pair.targets.sizes_text());
  if (targets.sizes[0] != inputs.sizes[0])
    throw UserError("{}: has {} rows, but {} has {}", pair.targets.name,
                    targets.sizes[0], pair.inputs.name, inputs.sizes[0]);
}

StoredPair open_pair(const std::string& root, const char* key,
                     const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    paths.push_back(find_data_file(root, "", name));
    if (paths.back().ends_with(".gz"))
      throw UserError(
          "{}: is read in pieces, so it can't be gzipped; gunzip it",
          paths.back());
  }
  StoredPair pair;
  if (paths.size() == 1 && paths[0].ends_with(".safetensors")) {
    pair = {open_entry(paths[0], "inputs"), open_entry(paths[0], "targets")};
  } else if (paths.size() == 2 && paths[0].ends_with(".npy") &&
             paths[1].ends_with(".npy")) {
    pair = {open_npy(paths[0]), open_npy(paths[1])};
  } else {
    throw UserError(
        "data.{} must name one .safetensors file with the tensors inputs and "
        "targets, or two .npy files: inputs, targets",
        key);
  }
  check_pair(pair);
  return pair;
}

bool are_real(const StoredArray& targets) {
  return at::isFloatingType(scalar_type(targets.array.dtype));
}

/// float32 [N, D].
at::Tensor real_targets(const StoredArray& stored) {
  const at::Tensor targets =
      all_of_array(stored).to(at::kFloat).view({stored.rows(), stored.width()});
  if (!at::isfinite(targets).all().item<bool>())
    throw UserError("{}: has a target that is NaN or infinite", stored.name);
  return targets;
}

/// int64 [N].
at::Tensor class_targets(const StoredArray& stored) {
  if (stored.width() != 1)
    throw UserError(
        "{}: has the shape {}; targets that are integers are classes, one for "
        "each sample: [N]. Numbers to be predicted are real (float32)",
        stored.name, stored.sizes_text());
  return all_of_array(stored).to(at::kLong).view({stored.rows()});
}

void check_classes(const StoredArray& stored, const at::Tensor& targets,
                   std::int64_t classes) {
  const auto* label = targets.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < targets.numel(); ++i)
    if (label[i] < 0 || label[i] >= classes)
      throw UserError("{}: sample {} has the label {}, expected 0 to {}",
                      stored.name, i, label[i], classes - 1);
}

class PackedSamples final : public Samples {
 public:
  PackedSamples(StoredArray inputs, at::Tensor targets, double scale)
      : inputs_(std::move(inputs)),
        targets_(std::move(targets)),
        scale_(scale) {}

  std::int64_t size() const override { return inputs_.rows(); }
  std::int64_t position(std::int64_t index, EpochKey) const override {
    return index;
  }

  Batch batch(std::span<const std::int64_t> indices, EpochKey) const override {
    Batch batch;
    batch.inputs = rows_of(inputs_, indices).to(at::kFloat);
    if (scale_ != 1) batch.inputs.mul_(scale_);
    std::vector<std::int64_t> sizes = targets_.sizes().vec();
    sizes[0] = std::ssize(indices);
    batch.labels = at::empty(sizes, targets_.scalar_type());
    std::span<std::byte> to = bytes_of_values(batch.labels);
    const auto* first =
        static_cast<const std::byte*>(targets_.const_data_ptr());
    const std::size_t row =
        targets_.nbytes() / static_cast<std::size_t>(size());
    for (const std::int64_t index : indices) {
      std::copy_n(first + static_cast<std::size_t>(index) * row, row,
                  to.begin());
      to = to.subspan(row);
    }
    return batch;
  }

 private:
  StoredArray inputs_;
  at::Tensor targets_;
  double scale_;
};

Split split_of(const StoredPair& pair, const at::Tensor& targets,
               double scale) {
  return {pair.inputs.rows(), [inputs = pair.inputs, targets, scale] {
            return std::make_shared<PackedSamples>(inputs, targets, scale);
          }};
}

struct PackedTensorsOptions {
  std::vector<std::string> train = {};
  std::vector<std::string> test = {};
  std::int64_t classes = 0;
  double scale = 1;

  void describe(Fields& fields) {
    constexpr std::string_view kFiles =
        "a .safetensors file with the tensors inputs and targets, or two .npy "
        "files, inputs and targets: beside the config, below data.root, or "
        "absolute";
    fields.key("train", train, {.text = kFiles});
    fields.key("test", test, {.text = kFiles});
    fields.key("classes", classes,
               {.text = "integer targets are below it; 0: the largest of the "
                        "training targets and 1",
                .min = 0,
                .max = static_cast<double>(kMostClasses)});
    fields.key("scale", scale, {.text = "factor of the inputs"});
  }

  void check(const Fields& fields) const {
    if (train.empty()) fields.reject("train", "names no file");
    if (test.empty()) fields.reject("test", "names no file");
  }
};

void check_same_form(const StoredPair& train, const StoredPair& test) {
  const auto form = [](const PackedArray& array) {
    return std::vector(array.sizes.begin() + 1, array.sizes.end());
  };
  if (form(train.inputs.array) != form(test.inputs.array))
    throw UserError("{}: has the shape {}, but {} has {}", test.inputs.name,
                    test.inputs.sizes_text(), train.inputs.name,
                    train.inputs.sizes_text());
  if (are_real(train.targets) != are_real(test.targets) ||
      train.targets.width() != test.targets.width())
    throw UserError("{}: its targets are not like those of {}",
                    test.targets.name, train.targets.name);
}

std::span<const std::int64_t> values_of(const at::Tensor& labels) {
  return {labels.const_data_ptr<std::int64_t>(),
          static_cast<std::size_t>(labels.numel())};
}

std::vector<std::string> clauses_of(const StoredPair& train,
                                    const StoredPair& test,
                                    const at::Tensor& targets,
                                    const SampleSpec& sample) {
  std::vector<std::string> clauses = {
      fmt::format("inputs: {}", safetensors_name(train.inputs.array.dtype))};
  if (sample.targets == Targets::classes)
    clauses.push_back("train: " +
                      labels_text(values_of(targets), sample.classes));
  if (train.inputs.file->path() == test.inputs.file->path())
    clauses.emplace_back("train and test are the same file");
  return clauses;
}

DataSet open_packed_tensors(const std::string& root,
                            const PackedTensorsOptions& options) {
  const StoredPair train = open_pair(root, "train", options.train);
  const StoredPair test = open_pair(root, "test", options.test);
  check_same_form(train, test);
  const auto& sizes = train.inputs.array.sizes;
  DataSet data;
  data.sample.shape = SampleShape(sizes.begin() + 1, sizes.end());
  at::Tensor training;
  at::Tensor tested;
  if (are_real(train.targets)) {
    training = real_targets(train.targets);
    tested = real_targets(test.targets);
    data.sample.classes = training.size(1);
    data.sample.targets = Targets::values;
  } else {
    training = class_targets(train.targets);
    tested = class_targets(test.targets);
    data.sample.classes =
        options.classes > 0
            ? options.classes
            : classes_of_labels(values_of(training), train.targets.name);
    check_classes(train.targets, training, data.sample.classes);
    check_classes(test.targets, tested, data.sample.classes);
  }
  data.found = [clauses = clauses_of(train, test, training, data.sample)] {
    return clauses;
  };
  data.train = split_of(train, training, options.scale);
  data.test = split_of(test, tested, options.scale);
  for (const StoredPair& pair : {train, test}) {
    data.files.push_back(pair.inputs.file->path());
    if (pair.targets.file->path() != pair.inputs.file->path())
      data.files.push_back(pair.targets.file->path());
  }
  return data;
}

}  // namespace

MakeDataSet configure_packed_tensors(Fields& fields) {
  PackedTensorsOptions options;
  options.describe(fields);
  const ValidationOptions validation = read_validation(fields);
  options.check(fields);
  return [options, validation](const std::string& root) {
    return with_validation(open_packed_tensors(root, options), validation);
  };
}

}  // namespace sluice
