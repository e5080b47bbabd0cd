#include "lib/workers/graphed_lower.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lib/blocks/graph_capture.h"
#include "lib/blocks/mask_draws.h"
#include "lib/tensors/gpu/device_graph.h"
#include "lib/tensors/layouts.h"
#include "lib/tensors/leaves.h"

namespace sluice {
namespace {

/// Operands of a signal, by which a graph fits: their layouts, and where lies
/// what has no memory in the graph.
struct SignalShape {
  std::vector<Layout> operands;
  std::vector<const void*> addresses;
  double share = 1;

  bool operator==(const SignalShape&) const = default;
};

/// Operands: features, labels and attachments, in this order.
Tensors operands_of(const BatchContext& context) {
  Tensors operands = context.features;
  operands.push_back(context.labels);
  for (const auto& [name, tensor] : context.attachments)
    operands.push_back(tensor);
  return operands;
}

/// A captured signal, one graph for all batches: a signal is over before that
/// of the next batch begins, for what it gives is copied.
class CapturedSignal {
 public:
  CapturedSignal(Lower& end, const BatchContext& context,
                 const c10::Device& device)
      : operands_(laid_out_copies(operands_of(context))) {
    const auto count = std::ssize(context.features);
    const Tensors features =
        leaves_of({operands_.begin(), operands_.begin() + count}, /*ask=*/true);
    const at::Tensor& labels = operands_.at(context.features.size());
    BatchContext captured{.turn = context.turn,
                          .batch = context.batch,
                          .features = features,
                          .labels = labels,
                          .from_above = context.from_above,
                          .pass = context.pass,
                          .share = context.share};
    std::size_t next = context.features.size() + 1;
    for (const auto& [name, tensor] : context.attachments)
      captured.attachments[name] = operands_.at(next++);
    captured.pass.draws = &draws_;
    const auto capture = [&] {
      graph_.emplace(device, [&] { signal_ = end.signal(captured); });
    };
    capture();
    if (draws_.empty()) return;
    draws_.begin_again();
    capture();
  }

  Signal replay(const BatchContext& context) {
    copy_values(operands_of(context), operands_);
    draws_.draw(context.pass.batch);
    graph_->replay();
    Tensors given = signal_.gradients;
    given.insert(given.end(), signal_.parameter_gradients.begin(),
                 signal_.parameter_gradients.end());
    given.push_back(signal_.loss);
    Tensors copies = laid_out_copies(given);
    Signal signal;
    const auto split = copies.begin() + std::ssize(signal_.gradients);
    signal.gradients.assign(copies.begin(), split);
    signal.parameter_gradients.assign(split, copies.end() - 1);
    signal.loss = copies.back();
    if (signal_.logits.defined()) signal.logits = logits_of(context);
    return signal;
  }

 private:
  /// Often the features themselves.
  at::Tensor logits_of(const BatchContext& context) const {
    const at::Tensor& logits = signal_.logits;
    return logits.is_alias_of(operands_.front()) &&
                   layout_of(logits) == layout_of(operands_.front())
               ? context.features.front().detach()
               : laid_out_copies({logits}).front();
  }

  Tensors operands_;
  MaskDraws draws_;
  std::optional<DeviceGraph> graph_;
  Signal signal_;
};

class GraphedLower final : public Lower {
 public:
  GraphedLower(std::shared_ptr<Lower> end, int block, const c10::Device& device)
      : end_(std::move(end)), block_(block), device_(device) {}

  Signal signal(const BatchContext& context) override {
    if (!context.from_above.empty()) return end_->signal(context);
    const SignalShape shape = shape_of(context);
    if (captured_ && shape == shape_) return captured_->replay(context);
    if (captured_ || !is_warm(shape)) return end_->signal(context);
    capture_for_graphs(block_, "the loss or the head",
                       [&] { captured_.emplace(*end_, context, device_); });
    return captured_->replay(context);
  }

  Traits traits() const override { return end_->traits(); }
  Tensors publish(std::int64_t batch, const Tensors& features,
                  const Attachments& attachments) override {
    return end_->publish(batch, features, attachments);
  }
  Tensors evaluated(const Tensors& features) override {
    return end_->evaluated(features);
  }
  NamedTensors evaluation_state() const override {
    return end_->evaluation_state();
  }
  Tensors passed(const Tensors& from_above) override {
    return end_->passed(from_above);
  }
  Lesson learn(const BatchContext& context) override {
    return end_->learn(context);
  }
  NamedTensors parameters() const override { return end_->parameters(); }
  NamedTensors copied() const override { return end_->copied(); }
  NamedTensors constants(const Tensors& features,
                         const at::Tensor& labels) override {
    return end_->constants(features, labels);
  }
  NamedTensors learners() const override { return end_->learners(); }
  const OptimizerOptions* learners_optimizer() const override {
    return end_->learners_optimizer();
  }
  void learners_replaced() override { end_->learners_replaced(); }
  NamedTensors buffers() const override { return end_->buffers(); }

 private:
  SignalShape shape_of(const BatchContext& context) const {
    SignalShape shape{.operands = layouts_of(operands_of(context)),
                      .addresses = {},
                      .share = context.share};
    for (const NamedTensors& state : {end_->parameters(), end_->buffers()})
      for (const auto& [name, tensor] : state)
        shape.addresses.push_back(tensor.const_data_ptr());
    return shape;
  }

  /// Counts signals of a shape that follow each other.
  bool is_warm(const SignalShape& shape) {
    warm_ = shape == shape_ ? warm_ + 1 : 0;
    shape_ = shape;
    return warm_ >= kGraphWarmUps;
  }

  const std::shared_ptr<Lower> end_;
  const int block_;
  const c10::Device device_;
  SignalShape shape_;  // of the last signal, or of the graph
  std::int64_t warm_ = 0;
  std::optional<CapturedSignal> captured_;
};

}  // namespace

std::vector<std::shared_ptr<Lower>> graphed_lowers(
    const std::vector<std::shared_ptr<Lower>>& ends, const Block& block) {
  if (!can_capture_graphs(block.device())) return ends;
  std::map<const Lower*, std::shared_ptr<Lower>> made;
  std::vector<std::shared_ptr<Lower>> all;
  for (const auto& end : ends) {
    std::shared_ptr<Lower>& mine = made[end.get()];
    if (!mine && end->depends_on_batch_alone())
      mine = std::make_shared<GraphedLower>(end, block.index(), block.device());
    all.push_back(mine ? mine : end);
  }
  return all;
}

}  // namespace sluice
