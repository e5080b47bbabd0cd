#include "experiments/data/change/assistant.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

double sigmoid_of(double score) {
  return 1 / (1 + std::exp(-score));
}

bool are_finite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value); });
}

std::vector<double> doubles_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(at::kCPU, at::kDouble).contiguous();
  const auto* first = values.const_data_ptr<double>();
  return {first, first + values.numel()};
}

at::Tensor tensor_with(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble);
}

/// The samples of a batch, as rows.
class SampleRows {
 public:
  SampleRows(const at::Tensor& inputs, const at::Tensor& labels,
             std::size_t elements)
      : inputs_(inputs.contiguous()),
        labels_(labels.contiguous()),
        elements_(elements),
        count_(static_cast<std::size_t>(labels.size(0))) {
    SLUICE_CHECK(inputs_.scalar_type() == at::kFloat &&
                     inputs_.numel() ==
                         labels_.numel() * static_cast<std::int64_t>(elements),
                 "the assistant knows samples of {} elements, not {} in all of "
                 "{} samples",
                 elements, inputs_.numel(), labels_.numel());
  }

  std::size_t count() const { return count_; }
  std::size_t elements() const { return elements_; }
  const float* input(std::size_t i) const {
    return inputs_.const_data_ptr<float>() + i * elements_;
  }
  std::size_t label(std::size_t i) const {
    return static_cast<std::size_t>(labels_.const_data_ptr<std::int64_t>()[i]);
  }

 private:
  at::Tensor inputs_;
  at::Tensor labels_;
  std::size_t elements_;
  std::size_t count_;
};

}  // namespace

void AssistOptions::describe(Fields& fields) {
  fields.section(
      "assist", "AutoAssist: training samples that seem easy are skipped",
      [this](Fields& keys) {
        keys.key("acceptance", acceptance,
                 {.text = "p0: a sample is trained on with the probability "
                          "p0 + (1 - p0) * vote, where the assistant votes on "
                          "whether its loss will be above the mean; 1: all "
                          "are, 0: there is no assistant. The paper's is 0.3",
                  .min = 0,
                  .max = 1});
        // Least share of samples to train on: below it the stream would be
        // searched for long.
        constexpr double kLeast = 0.01;
        if (is_on() && acceptance < kLeast)
          keys.reject("acceptance",
                      "is too small for batches to be filled: at least 0.01, "
                      "or 0 for no assistant");
        keys.key("learning_rate", learning_rate,
                 {.text = "of the assistant, a logistic regression on input "
                          "and class by plain SGD",
                  .min = 0,
                  .max = 1e6});
        keys.key("schedule", is_free, {{"lockstep", false}, {"free", true}},
                 {.text = "\"free\": data.prefetch batches are drawn ahead, in "
                          "a thread of their own, by the losses that have come "
                          "by then, as published; `sluice replay` repeats it. "
                          "\"lockstep\": nothing is drawn ahead, and the "
                          "losses that decide are those of `lag` turns ago"});
        keys.key("lag", lag,
                 {.text = "in lockstep the assistant draws batch t by the "
                          "losses of batches up to t - lag; 0: the smallest "
                          "lag that the schedule allows",
                  .unit = "turns",
                  .min = 0,
                  .max = 1e6});
        if (is_on() && is_free && lag > 0)
          keys.reject("lag",
                      "is known in lockstep alone: set it to 0, or assist."
                      "schedule = 'lockstep'");
      });
}

Assistant::Assistant(std::int64_t elements, std::int64_t classes)
    : of_elements_(static_cast<std::size_t>(elements)),
      of_classes_(static_cast<std::size_t>(classes)) {}

std::vector<double> Assistant::votes(const at::Tensor& inputs,
                                     const at::Tensor& labels) const {
  const SampleRows rows(inputs, labels, of_elements_.size());
  std::vector<double> votes;
  votes.reserve(rows.count());
  for (std::size_t i = 0; i < rows.count(); ++i) {
    const float* input = rows.input(i);
    double score = of_classes_.at(rows.label(i));
    for (std::size_t d = 0; d < rows.elements(); ++d)
      score += of_elements_[d] * static_cast<double>(input[d]);
    votes.push_back(sigmoid_of(score));
  }
  return votes;
}

void Assistant::learn(const at::Tensor& inputs, const at::Tensor& labels,
                      const at::Tensor& losses, double learning_rate) {
  const std::vector<double> of_samples = doubles_of(losses);
  if (!are_finite(of_samples)) alive_ = false;
  if (!alive_) return;
  const SampleRows rows(inputs, labels, of_elements_.size());
  SLUICE_CHECK(rows.count() == of_samples.size(), "{} losses of {} samples",
               of_samples.size(), rows.count());
  const auto count = static_cast<double>(rows.count());
  double mean = 0;
  for (const double loss : of_samples) mean += loss / count;
  const std::vector<double> now = votes(inputs, labels);
  for (std::size_t i = 0; i < rows.count(); ++i) {
    const double truth = of_samples[i] > mean ? 1 : 0;
    const double step = learning_rate * (now[i] - truth) / count;
    const float* input = rows.input(i);
    of_classes_.at(rows.label(i)) -= step;
    for (std::size_t d = 0; d < rows.elements(); ++d)
      of_elements_[d] -= step * static_cast<double>(input[d]);
  }
  alive_ = are_finite(of_elements_) && are_finite(of_classes_);
}

void Assistant::save(const std::string& name, NamedTensors& all) const {
  save_list({tensor_with(of_elements_), tensor_with(of_classes_)},
            name + ".weights", all);
  save_number(alive_ ? 1 : 0, name + ".alive", all);
}

void Assistant::restore(const std::string& name, const SavedState& saved) {
  const Tensors weights = saved.list(name + ".weights");
  std::vector<double> of_elements = doubles_of(weights.at(0));
  std::vector<double> of_classes = doubles_of(weights.at(1));
  if (of_elements.size() != of_elements_.size() ||
      of_classes.size() != of_classes_.size())
    throw UserError(
        "the checkpoint's assistant knows inputs of {} elements and {} "
        "classes, and the data set has {} and {}",
        of_elements.size(), of_classes.size(), of_elements_.size(),
        of_classes_.size());
  of_elements_ = std::move(of_elements);
  of_classes_ = std::move(of_classes);
  alive_ = saved.number(name + ".alive") != 0;
}

}  // namespace sluice
