#include "lib/worker.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/checkpoints/saved_state.h"
#include "lib/gradients.h"
#include "lib/memory/allocator.h"
#include "lib/optimizers/clipping.h"
#include "lib/pack.h"

namespace sluice {
namespace {

Tensors leaves_of(const Tensors& tensors, bool ask_for_gradients) {
  Tensors leaves;
  for (const at::Tensor& tensor : tensors) {
    leaves.push_back(tensor.detach());
    if (ask_for_gradients && tensor.is_floating_point())
      leaves.back().requires_grad_();
  }
  return leaves;
}

std::int64_t elements_of(const NamedTensors& tensors) {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : tensors) count += tensor.numel();
  return count;
}

std::int64_t bytes_of(const NamedTensors& tensors) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors)
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

/// The same storage, written behind the back of autograd: it would refuse the
/// graphs of methods that want old activations and new weights.
NamedTensors unwatched(const NamedTensors& parameters) {
  NamedTensors aliases;
  for (const auto& [name, parameter] : parameters)
    aliases.emplace_back(name, parameter.variable_data());
  return aliases;
}

/// A policy is somebody's plug-in: what it answers is checked.
void check_signal(const Signal& signal, const Tensors& features,
                  std::size_t parameters) {
  SLUICE_CHECK(signal.gradients.size() == features.size(),
               "the policy gave {} gradients for {} features",
               signal.gradients.size(), features.size());
  SLUICE_CHECK(signal.parameter_gradients.size() == parameters,
               "the policy gave {} gradients for its {} parameters",
               signal.parameter_gradients.size(), parameters);
  for (std::size_t i = 0; i < features.size(); ++i)
    SLUICE_CHECK(signal.gradients[i].defined() &&
                     signal.gradients[i].sizes() == features[i].sizes(),
                 "the policy gave no gradient of the shape of feature {}", i);
}

}  // namespace

Worker::Worker(WorkerSettings settings, WorkerParts parts)
    : settings_(std::move(settings)),
      parts_(std::move(parts)),
      trained_(parts_.block.parameters()) {
  for (auto& named : parts_.policy->parameters())
    trained_.push_back(std::move(named));
  optimizer_ = make_optimizer(settings_.optimizer, unwatched(trained_));
  const OptimizerOptions* own = parts_.policy->learners_optimizer();
  learners_options_ = own == nullptr ? settings_.optimizer : *own;
  const NamedTensors learners = unwatched(parts_.policy->learners());
  learners_ = learners.size();
  learners_optimizer_ = make_optimizer(learners_options_, learners);
  history_ = make_history({.delayed = plan().delay > 0,
                           .weights = plan().weights,
                           .statistics = plan().statistics,
                           .saved = !settings_.checkpoint_folder.empty()},
                          parts_.block);
}

void Worker::execute(const Action& action) {
  const ActionTimer timer(spent_, action.kind);
  std::optional<MemoryScope> memory;
  if (parts_.memory) memory.emplace(*parts_.memory);
  const PrecisionScope precision(settings_.precision);
  switch (action.kind) {
    case ActionKind::forward:
      return forward(action);
    case ActionKind::backward:
      return backward(action);
    case ActionKind::update:
      return update(action);
    case ActionKind::learn:
      return learn(action);
    case ActionKind::evaluate:
      return evaluate(action);
    case ActionKind::checkpoint:
      return checkpoint(action);
  }
}

const BlockPlan& Worker::plan() const {
  return settings_.plan.blocks[static_cast<std::size_t>(block()) - 1];
}

bool Worker::is_last() const {
  return block() == std::ssize(settings_.plan.blocks);
}

Pass Worker::pass_for(const Action& action, bool training) const {
  return {.seed = settings_.seed, .batch = action.batch, .training = training};
}

Message Worker::receive(Receiver& from, MessageKind kind, std::int64_t batch) {
  const Stopwatch waiting(spent_.waiting);
  std::optional<Message> message = from.receive();
  if (!message)
    throw LinkError("block {}: the neighbour closed before it sent {} {}",
                    block(), name_of(kind), batch);
  SLUICE_CHECK(message->kind == kind && message->batch == batch,
               "block {} expected {} {}, got {} {}", block(), name_of(kind),
               batch, name_of(message->kind), message->batch);
  return std::move(*message);
}

void Worker::send(Sender& to, Message message) {
  const Stopwatch waiting(spent_.waiting);
  to.send(std::move(message));
}

Worker::Fed Worker::take_inputs(const Action& action, MessageKind kind,
                                Source* source) {
  if (block() == 1) {
    const Batch batch = source->batch(action.batch);
    return {{laid_out(batch.inputs, settings_.memory_format)},
            batch.labels,
            batch.raw_inputs};
  }
  const Message message = receive(*parts_.below.receiver, kind, action.batch);
  const Tensors labels = unpack(message, "label");
  SLUICE_CHECK(labels.size() == 1, "{} came with {} label tensors",
               name_of(kind), labels.size());
  const Tensors raw_input = unpack(message, "input");
  return {unpack(message, "h"), labels[0],
          raw_input.empty() ? at::Tensor() : raw_input[0]};
}

void Worker::send_up(const Action& action, MessageKind kind,
                     const Tensors& outputs, const Fed& fed) {
  if (is_last()) return;
  Message message{.kind = kind,
                  .batch = action.batch,
                  .turn = action.turn,
                  .weight_version = version_};
  pack(outputs, "h", message);
  pack({fed.labels}, "label", message);
  if (kind == MessageKind::activation && plan().raw_input_to_above)
    pack({fed.raw_input}, "input", message);
  send(*parts_.above.sender, std::move(message));
}

void Worker::forward(const Action& action) {
  const Fed fed =
      take_inputs(action, MessageKind::activation, parts_.training.get());
  const BlockPlan& mine = plan();
  if (mine.needs_raw_input || mine.raw_input_to_above)
    SLUICE_CHECK(fed.raw_input.defined(),
                 "block {} got no un-normalised input, which a policy needs",
                 block());
  Flight flight{.inputs = leaves_of(fed.inputs, plan().gradient_to_below),
                .labels = fed.labels,
                .pass = pass_for(action, true),
                .version = version_};
  if (mine.needs_raw_input) flight.raw_input = fed.raw_input;
  const Tensors outputs = history_->forward(flight);
  send_up(action, MessageKind::activation, outputs, fed);
  flights_.emplace(action.batch, std::move(flight));
}

Flight Worker::take_flight(const Action& action) {
  auto node = flights_.extract(action.batch);
  SLUICE_CHECK(!node.empty(), "block {} has no forward of batch {}", block(),
               action.batch);
  return std::move(node.mapped());
}

Tensors Worker::receive_gradient(const Action& action) {
  const Message message =
      receive(*parts_.above.receiver, MessageKind::gradient, action.batch);
  if (settings_.plan.model_norm)
    pending_.squared_norm_above = unpack(message, "norm").at(0).item<double>();
  return unpack(message, "gradient");
}

void Worker::backward(const Action& action) {
  last_turn_ = action.turn;
  Tensors from_above;
  if (plan().gradient_from_above) from_above = receive_gradient(action);
  Flight flight = take_flight(action);
  const Graph graph = history_->graph_of(flight, version_);
  const Tensors features = leaves_of(graph.outputs, true);
  const Unchanged unchanged({&from_above, &features});
  Signal signal = parts_.policy->signal({.turn = action.turn,
                                         .batch = action.batch,
                                         .features = features,
                                         .labels = flight.labels,
                                         .from_above = from_above,
                                         .pass = flight.pass,
                                         .raw_input = flight.raw_input});
  unchanged.check(fmt::format("the policy above block {}", block()));

  Tensors targets = graph.parameters;
  if (plan().gradient_to_below)
    targets.insert(targets.end(), flight.inputs.begin(), flight.inputs.end());
  check_signal(signal, features,
               trained_.size() - parts_.block.parameters().size());
  const Tensors gradients =
      gradients_at(targets, graph.outputs, signal.gradients);
  const auto own = gradients.begin() + std::ssize(graph.parameters);
  Tensors applied(gradients.begin(), own);
  applied.insert(applied.end(), signal.parameter_gradients.begin(),
                 signal.parameter_gradients.end());
  if (pending_.batches == 0) pending_.first_batch = action.batch;
  accumulate(std::move(applied));
  pending_.steps_between = version_ - flight.version;
  pending_.labels = flight.labels.numel();
  pending_.loss = signal.loss;
  if (signal.logits.defined() && is_logged(action))
    pending_.correct = correct_of(signal.logits, flight.labels);
  if (plan().gradient_to_below) send_down(action, {own, gradients.end()});
  if (plan().first_layer_to_below) send_down(action, first_layer());
  if (plan().learns)
    lessons_[action.batch] = {leaves_of(features, false), flight.labels,
                              from_above, flight.pass};
}

/// Copies of its weights: the update writes them in place.
Tensors Worker::first_layer() const {
  const std::string layer =
      fmt::format("layers.{}.", parts_.block.first_layer());
  Tensors weights;
  for (const auto& [name, weight] : parts_.block.parameters())
    if (name.starts_with(layer)) weights.push_back(weight.detach().clone());
  return weights;
}

/// The sum over the batches of an update's window, in their order.
void Worker::accumulate(Tensors gradients) {
  if (pending_.batches++ == 0) {
    pending_.gradients = std::move(gradients);
    return;
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    at::Tensor& sum = pending_.gradients[i];
    if (!gradients[i].defined()) continue;
    sum = sum.defined() ? sum + gradients[i] : gradients[i];
  }
}

void Worker::send_down(const Action& action, const Tensors& gradients) {
  Message message{.kind = MessageKind::gradient,
                  .batch = action.batch,
                  .turn = action.turn,
                  .weight_version = version_};
  pack(gradients, "gradient", message);
  remember_sent(action.batch, gradients);
  if (settings_.plan.model_norm)
    pack({at::scalar_tensor(
             squared_norm(pending_.gradients, pending_.squared_norm_above),
             at::kDouble)},
         "norm", message);
  send(*parts_.below.sender, std::move(message));
}

/// Of what was sent down, as much as the block below may not have taken yet
/// when both have done the same turns.
void Worker::remember_sent(std::int64_t batch, const Tensors& gradients) {
  const BlockPlan& below =
      settings_.plan.blocks[static_cast<std::size_t>(block()) - 2];
  const std::int64_t under_way =
      gradient_taken_after(below).value_or(0) - plan().delay;
  if (settings_.checkpoint_folder.empty() || under_way <= 0) return;
  sent_down_[batch] = gradients;
  while (std::ssize(sent_down_) > under_way)
    sent_down_.erase(sent_down_.begin());
}

void Worker::clip(const Action& action) {
  const double limit = settings_.optimizer.clip_norm;
  double norm = 0;
  if (settings_.plan.model_norm) {
    // Block 1 ends the sum that came down with the gradients, and the norm of
    // the whole model goes up.
    norm = block() == 1 ? std::sqrt(squared_norm(pending_.gradients,
                                                 pending_.squared_norm_above))
                        : unpack(receive(*parts_.below.receiver,
                                         MessageKind::norm, action.batch),
                                 "norm")
                              .at(0)
                              .item<double>();
    if (!is_last()) {
      Message message{.kind = MessageKind::norm,
                      .batch = action.batch,
                      .turn = action.turn,
                      .weight_version = version_};
      pack({at::scalar_tensor(norm, at::kDouble)}, "norm", message);
      send(*parts_.above.sender, std::move(message));
    }
  } else if (limit > 0) {
    norm = std::sqrt(squared_norm(pending_.gradients, 0));
  }
  if (limit > 0) clip_to(limit, norm, pending_.gradients);
}

void Worker::update(const Action& action) {
  if (settings_.accumulate_mean && pending_.batches > 1)
    for (at::Tensor& gradient : pending_.gradients)
      if (gradient.defined())
        gradient = gradient / static_cast<double>(pending_.batches);
  clip(action);
  const double rate = rate_of(settings_.optimizer, action);
  optimizer_->step(pending_.gradients, rate);
  ++version_;
  pending_.batches = 0;
  if (is_logged(action)) log_training(action, rate);
}

double Worker::rate_of(const OptimizerOptions& options,
                       const Action& action) const {
  return options.learning_rate.at(action.turn, settings_.turns,
                                  settings_.turns_per_epoch);
}

void Worker::learn(const Action& action) {
  last_turn_ = action.turn;
  auto node = lessons_.extract(action.batch);
  SLUICE_CHECK(!node.empty(), "block {} has no backward of batch {}", block(),
               action.batch);
  ToLearn batch = std::move(node.mapped());
  if (!plan().gradient_from_above) batch.from_above = receive_gradient(action);
  const Unchanged unchanged({&batch.features, &batch.from_above});
  Lesson lesson = parts_.policy->learn({.turn = action.turn,
                                        .batch = action.batch,
                                        .features = batch.features,
                                        .labels = batch.labels,
                                        .from_above = batch.from_above,
                                        .pass = batch.pass});
  unchanged.check(fmt::format("the policy above block {}", block()));
  SLUICE_CHECK(lesson.gradients.size() == learners_,
               "the policy gave {} gradients for {} tensors that learn",
               lesson.gradients.size(), learners_);
  if (learners_options_.clip_norm > 0)
    clip_to(learners_options_.clip_norm,
            std::sqrt(squared_norm(lesson.gradients, 0)), lesson.gradients);
  learners_optimizer_->step(lesson.gradients,
                            rate_of(learners_options_, action));
  const bool is_due = action.turn % settings_.log_every == 0;
  if (!parts_.sink || !is_due || !lesson.loss.defined()) return;
  Record record;
  record.set("kind", "lesson");
  record.set("turn", action.turn);
  record.set("block", std::int64_t{block()});
  record.set("batch", action.batch);
  record.set("synthesizer_loss", lesson.loss.item<double>());
  parts_.sink->write(record);
}

/// A due turn, or the first update after one.
bool Worker::is_logged(const Action& action) const {
  return action.turn % settings_.log_every < plan().accumulate;
}

void Worker::log_training(const Action& action, double learning_rate) {
  if (!parts_.sink) return;
  Record record;
  record.set("kind", "train");
  record.set("turn", action.turn);
  record.set("block", std::int64_t{block()});
  record.set("batch", action.batch);
  if (pending_.loss.defined()) record.set("loss", pending_.loss.item<double>());
  if (pending_.correct.defined())
    record.set("accuracy", pending_.correct.item<double>() /
                               static_cast<double>(pending_.labels));
  record.set("lr", learning_rate);
  record.set("d_batch", action.turn - action.batch);
  record.set("d_upd", pending_.steps_between);
  parts_.sink->write(record);
}

void Worker::evaluate(const Action& action) {
  const at::NoGradGuard no_grad;
  if (action.batch == 0) evaluation_ = {};
  const Fed fed =
      take_inputs(action, MessageKind::evaluation, parts_.evaluation.get());
  const Tensors outputs =
      parts_.block.forward(fed.inputs, pass_for(action, false));
  send_up(action, MessageKind::evaluation, outputs, fed);
  if (!is_last()) return;
  evaluation_.add(settings_.loss, outputs[0], fed.labels);
  if (action.batch + 1 == settings_.evaluation_batches) log_evaluation(action);
}

void Worker::log_evaluation(const Action& action) {
  if (!parts_.sink) return;
  Record record;
  record.set("kind", "evaluation");
  record.set("turn", action.turn);
  record.set("epoch", static_cast<double>(action.turn) /
                          static_cast<double>(settings_.turns_per_epoch));
  record.set("loss", evaluation_.loss());
  record.set("accuracy", evaluation_.accuracy());
  parts_.sink->write(record);
}

void Worker::checkpoint(const Action& action) {
  // A drain goes on with turns that forward nothing.
  if (last_turn_ >= action.turn) first_batch_ = action.turn;
  if (settings_.checkpoint_folder.empty()) return;
  save_block(settings_.checkpoint_folder, action.batch, block(), weights(),
             state());
}

std::size_t Worker::graphs() const {
  return static_cast<std::size_t>(std::count_if(
      flights_.begin(), flights_.end(),
      [](const auto& item) { return !item.second.outputs.empty(); }));
}

NamedTensors Worker::weights() const {
  NamedTensors all = trained_;
  for (auto& named : parts_.policy->learners()) all.push_back(std::move(named));
  for (const auto& named : parts_.block.buffers()) all.push_back(named);
  for (auto& named : parts_.policy->buffers()) all.push_back(std::move(named));
  return all;
}

std::string Worker::name_in_state(std::string_view what) const {
  return fmt::format("{}.{}", what, block());
}

NamedTensors Worker::state() const {
  NamedTensors all = optimizer_->state();
  for (auto& named : learners_optimizer_->state())
    all.push_back(std::move(named));
  const std::string me = name_in_state("workers");
  save_number(version_, me + ".weight_version", all);
  save_number(first_batch_, me + ".first_batch", all);
  save_number(parts_.block.first_layer(), me + ".first_layer", all);
  save_number(static_cast<std::int64_t>(plan().weights), me + ".weights", all);
  const std::string flights = name_in_state("flights");
  for (const auto& [batch, flight] : flights_) {
    const std::string name = fmt::format("{}.{}", flights, batch);
    save_number(flight.version, name + ".version", all);
    save_list(flight.inputs, name + ".input", all);
    save_list({flight.labels}, name + ".label", all);
    if (flight.raw_input.defined())
      save_list({flight.raw_input}, name + ".raw_input", all);
    save_list(history_->weights_of(flight), name + ".weight", all);
  }
  for (const auto& [batch, lesson] : lessons_) {
    const std::string name =
        fmt::format("{}.{}", name_in_state("lessons"), batch);
    save_list(lesson.features, name + ".feature", all);
    save_list({lesson.labels}, name + ".label", all);
    save_list(lesson.from_above, name + ".gradient", all);
  }
  for (const auto& [batch, gradients] : sent_down_)
    save_list(gradients,
              fmt::format("{}.{}.gradient", name_in_state("sent"), batch), all);
  if (pending_.batches > 0) {
    const std::string name = name_in_state("accumulated");
    save_number(pending_.batches, name + ".batches", all);
    save_number(pending_.first_batch, name + ".first_batch", all);
    save_list(pending_.gradients, name + ".gradient", all);
  }
  return all;
}

void Worker::restore(const NamedTensors& weights, const NamedTensors& state,
                     std::string_view source) {
  copy_by_name(weights, this->weights(), source);
  copy_by_name(state, optimizer_->state(), source);
  copy_by_name(state, learners_optimizer_->state(), source);
  const SavedState saved(state, source);
  version_ = saved.number(name_in_state("workers") + ".weight_version");
  restore_flights(saved);
  restore_lessons(saved);
  for (const std::int64_t batch : saved.numbers_below(name_in_state("sent")))
    sent_down_[batch] =
        saved.list(fmt::format("{}.{}.gradient", name_in_state("sent"), batch));
  const std::string name = name_in_state("accumulated");
  if (saved.has(name + ".batches")) {
    pending_.batches = saved.number(name + ".batches");
    pending_.first_batch = saved.number(name + ".first_batch");
    pending_.gradients = saved.list(name + ".gradient");
  }
}

void Worker::restore_flights(const SavedState& saved) {
  const PrecisionScope precision(settings_.precision);
  const std::string flights = name_in_state("flights");
  for (const std::int64_t batch : saved.numbers_below(flights)) {
    const std::string name = fmt::format("{}.{}", flights, batch);
    Flight flight{.inputs = leaves_of(saved.list(name + ".input"),
                                      plan().gradient_to_below),
                  .labels = saved.list(name + ".label").at(0),
                  .pass = pass_for({.batch = batch}, true),
                  .version = saved.number(name + ".version")};
    if (plan().needs_raw_input)
      flight.raw_input = saved.list(name + ".raw_input").at(0);
    history_->restore(flight, saved.list(name + ".weight"));
    flights_.emplace(batch, std::move(flight));
  }
}

void Worker::restore_lessons(const SavedState& saved) {
  const std::string lessons = name_in_state("lessons");
  for (const std::int64_t batch : saved.numbers_below(lessons)) {
    const std::string name = fmt::format("{}.{}", lessons, batch);
    lessons_[batch] = {
        saved.list(name + ".feature"), saved.list(name + ".label").at(0),
        saved.list(name + ".gradient"), pass_for({.batch = batch}, true)};
  }
}

void Worker::start(const Grant& first) {
  const std::map<std::int64_t, Tensors> sent = std::move(sent_down_);
  sent_down_.clear();
  for (const Transfer& transfer :
       in_flight(settings_.plan, first.first_turn, first.first_batch))
    if (transfer.from == block())
      send_down({.batch = transfer.batch}, sent.at(transfer.batch));
  first_batch_ = first.first_batch;
  // A window that was incomplete when the pipe was drained is not applied.
  if (pending_.first_batch < first_batch_) pending_ = {};
}

Record Worker::costs() const {
  Record record;
  record.set("kind", "block");
  record.set("block", std::int64_t{block()});
  record.set("parameters",
             elements_of(trained_) + elements_of(parts_.policy->learners()));
  record.set("forward_s", spent_.of(ActionKind::forward));
  record.set("backward_s", spent_.of(ActionKind::backward));
  record.set("update_s", spent_.of(ActionKind::update));
  record.set("learn_s", spent_.of(ActionKind::learn));
  record.set("evaluate_s", spent_.of(ActionKind::evaluate));
  record.set("waiting_s", spent_.waiting);
  record.set("weights_bytes", bytes_of(weights()));
  record.set("optimizer_bytes", bytes_of(optimizer_->state()) +
                                    bytes_of(learners_optimizer_->state()));
  if (parts_.memory && allocator_installed())
    record.set("peak_bytes",
               static_cast<std::int64_t>(parts_.memory->peak_bytes()));
  return record;
}

void Worker::finish() {
  if (parts_.sink) parts_.sink->write(costs());
  for (Link* link : {&parts_.below, &parts_.above})
    if (link->sender) link->sender->close();
}

}  // namespace sluice
