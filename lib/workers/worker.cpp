#include "lib/workers/worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"
#include "lib/boundaries/codecs/coded.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/memory/allocator.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/staging.h"
#include "lib/updates/clipping.h"

namespace sluice {
namespace {

/// The same storage, written behind the back of autograd: it would refuse the
/// graphs of methods that want old activations and new weights.
NamedTensors unwatched(const NamedTensors& parameters) {
  NamedTensors aliases;
  for (const auto& [name, parameter] : parameters)
    aliases.emplace_back(name, parameter.variable_data());
  return aliases;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

/// Their number when it isn't there.
std::size_t index_of(const std::string& name, const NamedTensors& tensors) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const auto& named) { return named.first == name; });
  return static_cast<std::size_t>(found - tensors.begin());
}

/// From now on `later` is the very tensor that `earlier` is.
void continue_with(const std::pair<std::string, at::Tensor>& earlier,
                   std::pair<std::string, at::Tensor>& later) {
  if (earlier.second.is_same(later.second)) return;
  if (earlier.second.sizes() != later.second.sizes())
    throw UserError(
        "the timetable has two policies that train '{}' in different shapes",
        earlier.first);
  later.second.set_data(earlier.second.variable_data());
}

at::Tensor host_copy(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor.detach().clone() : tensor.detach().cpu();
}

NamedTensors copies_by_name(const NamedTensors& names, const Tensors& values) {
  NamedTensors copies;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (values[i].defined())
      copies.emplace_back(names[i].first, host_copy(values[i]));
  return copies;
}

/// An end is somebody's plug-in: what it answers is checked.
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

/// That of the synthesizers below, which moves no weights, if it is apart.
void add_target(const BlockPlan& plan, const BatchContext& context,
                const Signal& signal, Lower& lower, std::vector<Pull>& pulls) {
  const GradientPart& last = plan.parts.back();
  if (!last.target) return;
  Tensors target = signal.targets.empty() ? lower.passed(context.target_above)
                                          : signal.targets;
  SLUICE_CHECK(target.size() == context.features.size(),
               "the policy gave {} targets for {} features", target.size(),
               context.features.size());
  pulls.push_back({std::move(target), last.applied, last.leaving});
}

/// Counts as waiting for its life.
class Waiting {
 public:
  Waiting(double& total, std::optional<GpuClock>& gpu_clock)
      : stopwatch_(total),
        gpu_clock_(gpu_clock),
        was_running_(gpu_clock && gpu_clock->pause()) {}
  ~Waiting() {
    if (was_running_) gpu_clock_->resume();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Stopwatch stopwatch_;
  std::optional<GpuClock>& gpu_clock_;
  bool was_running_;
};

}  // namespace

Worker::Worker(WorkerSettings settings, WorkerParts parts)
    : settings_(std::move(settings)),
      parts_(std::move(parts)),
      trained_(parts_.block.parameters()),
      log_(parts_.block.index(), parts_.sink, settings_.turns_per_epoch,
           settings_.plans.at(0).blocks.at(0).micro_batches),
      timeline_(parts_.block.index(), parts_.sink, settings_.traced) {
  SLUICE_CHECK(parts_.lowers.size() == settings_.plans.size(),
               "{} lower ends for {} phases", parts_.lowers.size(),
               settings_.plans.size());
  if (!device().is_cpu()) gpu_clock_.emplace(device());
  parts_.uppers.resize(parts_.lowers.size());
  for (std::size_t i = 0; i < parts_.lowers.size(); ++i)
    add_stage(parts_.lowers[i],
              parts_.uppers[i] ? parts_.uppers[i] : std::make_shared<Upper>());
  // Of lower ends first: optimizer states lie in this order.
  for (Stage& stage : stages_)
    stage.upper_learners = add_learners(stage.upper->learners(),
                                        stage.upper->learners_optimizer());
  update_ = std::make_unique<UpdateChain>(
      UpdateOptions{settings_.optimizer, settings_.accumulate_mean},
      unwatched(trained_));
  enter(0, 0);
  if (plan().replay) buffer_.emplace(*plan().replay);
}

void Worker::bring_here(const BoundaryEnd& end) const {
  move_to(device(), end.learners());
  move_to(device(), end.buffers());
}

void Worker::add_stage(std::shared_ptr<Lower> lower,
                       std::shared_ptr<Upper> upper) {
  move_to(device(), lower->parameters());
  bring_here(*lower);
  bring_here(*upper);
  Stage stage{.lower = std::move(lower), .upper = std::move(upper)};
  train(stage, stage.lower->parameters());
  stage.learners =
      add_learners(stage.lower->learners(), stage.lower->learners_optimizer());
  stages_.push_back(std::move(stage));
}

/// By the block's optimizer.
void Worker::train(Stage& stage, NamedTensors parameters) {
  for (auto& named : parameters) {
    const std::size_t index = index_of(named.first, trained_);
    // A head that an earlier phase has trained under that name goes on.
    if (index < trained_.size())
      continue_with(trained_[index], named);
    else
      trained_.push_back(named);
    stage.trained.push_back(index);
  }
}

/// Those of an earlier phase when they are the same.
std::size_t Worker::add_learners(NamedTensors tensors,
                                 const OptimizerOptions* own_options) {
  for (std::size_t i = 0; i < learners_.size(); ++i) {
    if (names_of(learners_[i].tensors) != names_of(tensors)) continue;
    for (std::size_t j = 0; j < tensors.size(); ++j)
      continue_with(learners_[i].tensors[j], tensors[j]);
    return i;
  }
  const OptimizerOptions& options =
      own_options == nullptr ? settings_.optimizer : *own_options;
  auto update =
      std::make_unique<UpdateChain>(UpdateOptions{options}, unwatched(tensors));
  learners_.push_back({std::move(tensors), std::move(update)});
  return learners_.size() - 1;
}

void Worker::enter(std::int64_t phase, std::int64_t turn) {
  if (history_ && phase == phase_) return;
  SLUICE_CHECK(flights_.empty() && lessons_.empty() && halves_.empty(),
               "block {}: phase {} begins with batches in flight", block(),
               phase);
  phase_ = phase;
  first_batch_ = turn;
  sent_down_.clear();
  pending_ = {};
  ledger_ = {};
  history_ = make_history(
      {.delayed = plan().delay > 0,
       .weights = plan().weights,
       .statistics = plan().statistics.value_or(StatisticsAt::forward),
       .saved = !settings_.checkpoint_folder.empty()},
      parts_.block);
}

void Worker::execute(const Action& action) {
  if (parts_.witness) watch(action);
  timeline_.begins(action);
  if (gpu_clock_) {
    gpu_clock_->resume(action.op);
    perform(action);
    gpu_clock_->pause();
    gpu_clock_->collect(spent_, /*all=*/false);
  } else {
    const ActionTimer timer(spent_, action.op);
    perform(action);
  }
  timeline_.ends(action, plan().staleness_of(action), parts_.below,
                 parts_.above);
  if (settings_.status) tell_status(action);
  if (seen_) parts_.witness->applied(*std::exchange(seen_, std::nullopt));
}

void Worker::tell_status(const Action& action) {
  constexpr double kPeriod = 1;  // s
  const SteadyTime now = std::chrono::steady_clock::now();
  if (seconds_since(told_) < kPeriod) return;
  told_ = now;
  log_.status(action, spent_.waiting, parts_.below, parts_.above);
}

void Worker::perform(const Action& action) {
  std::optional<MemoryScope> memory;
  if (parts_.memory) memory.emplace(*parts_.memory);
  const PrecisionScope precision(settings_.precision, device().type());
  enter(action.phase, action.turn);
  SLUICE_CHECK(action.round == 0, "block {} ({}): no method has rounds yet",
               block(), to_text(action));
  SLUICE_CHECK(ledger_.may(action), "block {} ({}) lacks {}", block(),
               to_text(action), ledger_.lacks(action));
  static const ByOp<void (Worker::*)(const Action&)> does = {
      {Op::forward, &Worker::forward},
      {Op::backward, &Worker::backward},
      {Op::update, &Worker::update},
      {Op::learn, &Worker::learn},
      {Op::evaluate, &Worker::evaluate},
      {Op::save, &Worker::checkpoint},
      {Op::learn_input, &Worker::learn_input},
      {Op::backward_input, &Worker::backward_input},
      {Op::backward_weights, &Worker::backward_weights}};
  if (const auto work = does[action.op]) (this->*work)(action);
  ledger_.did(plan(), action);
}

/// Before the first action of a turn that is watched.
void Worker::watch(const Action& action) {
  const bool is_training = action.op == Op::forward ||
                           action.op == Op::backward ||
                           action.op == Op::backward_input;
  const std::pair now{action.phase, action.turn};
  if (!is_training || watched_ == now || !parts_.witness->watches(action.turn))
    return;
  watched_ = now;
  NamedTensors weights;
  for (const NamedTensors* which :
       {&parts_.block.parameters(), &parts_.block.buffers()})
    for (const auto& [name, tensor] : *which)
      weights.emplace_back(name, host_copy(tensor));
  parts_.witness->before_turn(block(), action.phase, action.turn,
                              std::move(weights));
}

const RunPlan& Worker::run_plan() const {
  return settings_.plans[phase()];
}

const BlockPlan& Worker::plan() const {
  return run_plan().blocks[static_cast<std::size_t>(block()) - 1];
}

bool Worker::is_last() const {
  return block() == std::ssize(run_plan().blocks);
}

Pass Worker::pass_for(const Action& action, bool training) const {
  return {.seed = settings_.seed,
          .batch = action.batch,
          .training = training,
          .masks = settings_.masks};
}

Message Worker::receive(Receiver& from, MessageKind kind,
                        const Action& action) {
  std::optional<Message> message = receive_any(from);
  if (!message)
    throw LinkError("block {}: the neighbour closed before it sent {} {}",
                    block(), name_of(kind), action.batch);
  const BatchRound got{message->batch, message->round};
  SLUICE_CHECK(message->kind == kind && got == batch_round(action),
               "block {} expected {} {}, got {} {}", block(), name_of(kind),
               to_text(batch_round(action)), name_of(message->kind),
               to_text(got));
  return std::move(*message);
}

Message Worker::message_of(MessageKind kind, const Action& action) const {
  return {.kind = kind,
          .batch = action.batch,
          .turn = action.turn,
          .weight_version = version_,
          .round = action.round};
}

/// The next message that is not told to be skipped.
std::optional<Message> Worker::receive_any(Receiver& from) {
  const Waiting waiting(spent_.waiting, gpu_clock_);
  const bool is_below = &from == parts_.below.receiver.get();
  while (true) {
    const SteadyTime since = std::chrono::steady_clock::now();
    std::optional<Message> message = from.receive();
    if (message)
      timeline_.taken({message->kind, message->batch, message->round},
                      block() + (is_below ? -1 : 1), since);
    const bool is_skipped = message &&
                            message->kind == MessageKind::activation &&
                            skipped_.erase(message->batch) > 0;
    if (!is_skipped) return message;
  }
}

void Worker::send(Sender& to, Message message) {
  const Waiting waiting(spent_.waiting, gpu_clock_);
  const bool is_below = &to == parts_.below.sender.get();
  const MessageHead head{message.kind, message.batch, message.round};
  const SteadyTime since = std::chrono::steady_clock::now();
  to.send(std::move(message));
  timeline_.sent(head, block() + (is_below ? -1 : 1), since);
}

Payload Worker::read(Source& source, const Action& action) const {
  const Batch batch = source.batch(action.batch);
  Payload data{
      {on_device(laid_out(batch.inputs, settings_.memory_format), device())},
      batch.labels};
  if (batch.raw_inputs.defined())
    data.attachments[kRawInput] = batch.raw_inputs;
  return data;
}

Payload Worker::take_payload(const Action& action, MessageKind kind,
                             Source* source) {
  if (block() == 1) return read(*source, action);
  const Message message = take_message(action, kind);
  const Tensors labels = unpack(message, "label");
  SLUICE_CHECK(labels.size() == 1, "{} came with {} label tensors",
               name_of(kind), labels.size());
  Payload payload{unpack(message, "h", parts_.codec_below.get(), device()),
                  labels[0]};
  for (const auto* names : {&plan().keeps, &plan().relays})
    for (const std::string& name : *names)
      if (const Tensors found = unpack(message, name); !found.empty())
        payload.attachments[name] = found[0];
  return payload;
}

InputContext Worker::input_context(const Action& action) {
  InputContext context{.turn = action.turn,
                       .batch = action.batch,
                       .pass = pass_for(action, true),
                       .device = device()};
  if (plan().forwards_data())
    context.data = [this, action] { return read(*parts_.training, action); };
  return context;
}

Message Worker::take_message(const Action& action, MessageKind kind) {
  if (!buffer_) return receive(*parts_.below.receiver, kind, action);
  if (kind == MessageKind::evaluation) return take_evaluation(action.batch);
  fill_buffer(action.arrived);
  std::optional<ReplayBuffer::Use> use = buffer_->read();
  SLUICE_CHECK(use, "block {}: its replay buffer is empty in turn {}", block(),
               action.turn);
  log_.took(buffer_->written() - 1 - use->message.batch, use->reuse);
  return std::move(use->message);
}

/// It lies behind all that the block below forwarded before it.
Message Worker::take_evaluation(std::int64_t batch) {
  while (true) {
    std::optional<Message> message = receive_any(*parts_.below.receiver);
    if (!message)
      throw LinkError("block {}: the neighbour closed before it sent {} {}",
                      block(), name_of(MessageKind::evaluation), batch);
    if (message->kind == MessageKind::evaluation && message->batch == batch)
      return std::move(*message);
    write_to_buffer(std::move(*message));
  }
}

void Worker::fill_buffer(std::int64_t arrived) {
  while (buffer_->written() < arrived) {
    std::optional<Message> message = receive_any(*parts_.below.receiver);
    if (!message)
      throw LinkError("block {}: the neighbour closed after {} activations",
                      block(), buffer_->written());
    write_to_buffer(std::move(*message));
  }
}

void Worker::write_to_buffer(Message message) {
  SLUICE_CHECK(message.kind == MessageKind::activation,
               "block {} expected an activation, got {} {}", block(),
               name_of(message.kind), message.batch);
  buffer_->write(std::move(message));
}

void Worker::send_up(const Action& action, MessageKind kind,
                     const Tensors& outputs, const Payload& fed) {
  if (is_last()) return;
  Message message = message_of(kind, action);
  pack(outputs, "h", parts_.codec_above.get(), message);
  pack({fed.labels}, "label", message);
  if (kind == MessageKind::activation)
    for (const std::string& name : plan().relays)
      pack({fed.attachments.at(name)}, name, message);
  send(*parts_.above.sender, std::move(message));
}

/// On the block's device.
Attachments Worker::kept_of(const Payload& fed) const {
  Attachments kept;
  for (const auto* names : {&plan().keeps, &plan().relays})
    for (const std::string& name : *names)
      SLUICE_CHECK(fed.attachments.contains(name),
                   "block {} got no {} with its batch, which the policy of a "
                   "boundary needs",
                   block(), name);
  for (const std::string& name : plan().keeps)
    kept[name] = on_device(fed.attachments.at(name), device());
  return kept;
}

void Worker::forward(const Action& action) {
  const Payload fed = upper().inputs(input_context(action), [&] {
    return take_payload(action, MessageKind::activation, parts_.training.get());
  });
  Flight flight{.inputs = leaves_of(fed.features, plan().gradient_to_below()),
                .labels = on_device(fed.labels, device()),
                .pass = pass_for(action, true),
                .version = version_,
                .attachments = kept_of(fed)};
  const Tensors outputs = history_->forward(flight);
  send_up(action, MessageKind::activation, outputs, fed);
  flights_.emplace(action.batch, std::move(flight));
  note_memory();
}

void Worker::learn_input(const Action& action) {
  const Payload from_below =
      take_payload(action, MessageKind::activation, nullptr);
  Lesson lesson = upper().learn(input_context(action), from_below);
  step(learners_[stages_[phase()].upper_learners], std::move(lesson.gradients),
       action);
  if (action.turn % settings_.log_every == 0)
    log_.learned(action, lesson.loss_name, lesson.loss);
}

Worker::Down Worker::receive_from_above(const Action& action) {
  const Message message =
      receive(*parts_.above.receiver, MessageKind::gradient, action);
  if (run_plan().model_norm)
    pending_.squared_norm_above = unpack(message, "norm").at(0).item<double>();
  const BlockPlan& above = run_plan().blocks[static_cast<std::size_t>(block())];
  Down arrived;
  for (int way = 0; way < above.leaving; ++way)
    arrived.gradients.push_back(
        unpack(message, gradient_name(static_cast<std::size_t>(way)),
               parts_.codec_above.get(), device()));
  if (above.answers())
    arrived.answer = unpack(message, kAnswer, nullptr, device());
  return arrived;
}

Signal Worker::ask(const BatchContext& context) {
  Signal signal = lower().signal(context);
  check_signal(signal, context.features, stages_[phase()].trained.size());
  return signal;
}

/// Which gradients at the outputs are taken back, each by itself: usually the
/// one that the policy answers.
std::vector<Pull> Worker::pulls_of(const BatchContext& context,
                                   const std::vector<Tensors>& arrived,
                                   Signal& signal) {
  const std::vector<GradientPart>& parts = plan().parts;
  if (plan().is_merged()) {
    signal = ask(context);
    std::vector<Pull> pulls = {
        {signal.gradients, parts.front().applied, parts.front().leaving}};
    add_target(plan(), context, signal, lower(), pulls);
    return pulls;
  }
  std::vector<Pull> pulls;
  auto next = arrived.begin();
  for (const GradientPart& part : parts) {
    if (part.own) signal = ask(context);
    const Tensors gradients =
        part.own ? signal.gradients : lower().passed(*next++);
    if (!part.applied && part.leaving == GradientPart::kStays) continue;
    const auto same =
        std::find_if(pulls.begin(), pulls.end(), [&](const Pull& pull) {
          return pull.applied == part.applied && pull.leaving == part.leaving;
        });
    if (same == pulls.end())
      pulls.push_back({gradients, part.applied, part.leaving});
    else
      add_to(same->signal, gradients);
  }
  return pulls;
}

/// What comes from above, and what the end above the block makes of it.
Worker::Asked Worker::ask_above(const Action& action) {
  last_turn_ = action.turn;
  check_staleness(action);
  Down arrived;
  if (plan().gradient_from_above) arrived = receive_from_above(action);
  Tensors target_above;
  if (plan().target_from_above) {
    target_above = std::move(arrived.gradients.back());
    arrived.gradients.pop_back();
  }
  const bool is_one = plan().is_merged() && !arrived.gradients.empty();
  const Tensors from_above = is_one ? arrived.gradients.front() : Tensors();
  Asked asked{.flight = std::move(flights_.extract(action.batch).mapped())};
  const Flight& flight = asked.flight;
  asked.graph = history_->graph_of(asked.flight, version_);
  note_graphs(flight.graph_bytes);
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const Unchanged unchanged({&from_above, &target_above, &features});
  asked.pulls = pulls_of({.turn = action.turn,
                          .batch = action.batch,
                          .features = features,
                          .labels = flight.labels,
                          .from_above = from_above,
                          .pass = flight.pass,
                          .attachments = flight.attachments,
                          .target_above = target_above,
                          .share = plan().micro_batches.share_of(action.batch)},
                         arrived.gradients, asked.signal);
  unchanged.check(fmt::format("the policy above block {}", block()));
  if (plan().learns)
    asked.lesson = {
        leaves_of(features, false), flight.labels,
        target_above.empty() ? sum_of(arrived.gradients) : target_above,
        flight.pass, arrived.answer};
  return asked;
}

/// The gradients are part of the next update.
void Worker::apply(const Action& action, const Asked& asked,
                   const Tensors& parameters) {
  const Flight& flight = asked.flight;
  const Signal& signal = asked.signal;
  accumulate(action, parameters, signal.parameter_gradients);
  pending_.in_batches.add(plan().staleness_of(action));
  pending_.in_updates.add(version_ - flight.version);
  at::Tensor correct;
  if (signal.logits.defined() && is_logged(action))
    correct = correct_of(signal.logits, flight.labels);
  log_.applied(action, plan().staleness_of(action), version_ - flight.version,
               {.loss = signal.loss,
                .correct = correct,
                .labels = flight.labels.numel(),
                .share = plan().micro_batches.share_of(action.batch),
                .figures = signal.figures});
  if (watched_ == std::pair{action.phase, action.turn})
    seen_ = {block(), action.phase, action.turn, action.batch,
             copies_by_name(parts_.block.parameters(), parameters)};
}

void Worker::backward(const Action& action) {
  Asked asked = ask_above(action);
  const Pulled pulled =
      pull_back(asked.graph, asked.flight.inputs, plan().leaving, asked.pulls);
  apply(action, asked, pulled.parameters);
  send_down(action, down_of(pulled.inputs));
  if (plan().learns) lessons_[action.batch] = std::move(asked.lesson);
}

void Worker::backward_input(const Action& action) {
  SLUICE_CHECK(!run_plan().model_norm,
               "block {}: the norm goes down with the gradients of the weights",
               block());
  Asked asked = ask_above(action);
  const Pulled pulled = pull_back(asked.graph, asked.flight.inputs,
                                  plan().leaving, asked.pulls, Half::inputs);
  send_down(action, down_of(pulled.inputs));
  halves_.emplace(action.batch, std::move(asked));
}

void Worker::backward_weights(const Action& action) {
  Asked asked = std::move(halves_.extract(action.batch).mapped());
  const Pulled pulled = pull_back(asked.graph, asked.flight.inputs,
                                  plan().leaving, asked.pulls, Half::weights);
  apply(action, asked, pulled.parameters);
  if (plan().learns) lessons_[action.batch] = std::move(asked.lesson);
}

void Worker::check_staleness(const Action& action) const {
  const std::int64_t staleness = plan().staleness_of(action);
  if (staleness <= settings_.max_staleness) return;
  throw UserError(
      "block {}: in turn {} it would apply the gradient of batch {}, {} "
      "batches old; max_staleness is {}",
      block(), action.turn, action.batch, staleness, settings_.max_staleness);
}

/// The sum over the batches of an update's window, in their order.
void Worker::accumulate(const Action& action, const Tensors& own,
                        const Tensors& of_lower) {
  Tensors gradients = own;
  gradients.resize(trained_.size());
  for (std::size_t i = 0; i < of_lower.size(); ++i)
    gradients[stages_[phase()].trained[i]] = of_lower[i];
  if (pending_.batches == 0)
    pending_.first_turn = plan().micro_batches.turn_of(action.batch);
  if (pending_.batches++ == 0)
    pending_.gradients = std::move(gradients);
  else
    add_to(pending_.gradients, gradients);
  if (plan().micro_batches.ends_turn(action.batch)) ++pending_.turns;
}

Worker::Down Worker::down_of(std::vector<Tensors> gradients) {
  Down down{std::move(gradients)};
  if (plan().answers()) down.answer = upper().answer(parts_.block);
  return down;
}

void Worker::send_down(const Action& action, const Down& down) {
  if (!plan().gradient_to_below() && !plan().answers()) return;
  Message message = message_of(MessageKind::gradient, action);
  for (std::size_t way = 0; way < down.gradients.size(); ++way)
    pack(down.gradients[way], gradient_name(way), parts_.codec_below.get(),
         message);
  if (plan().answers()) pack(down.answer, kAnswer, message);
  remember_sent(action.batch, down);
  if (run_plan().model_norm)
    pack({at::scalar_tensor(
             squared_norm(pending_.gradients, pending_.squared_norm_above),
             at::kDouble)},
         "norm", message);
  send(*parts_.below.sender, std::move(message));
}

/// Of what was sent down, as much as the block below may not have taken yet
/// when both have done the same turns.
void Worker::remember_sent(std::int64_t batch, const Down& down) {
  const BlockPlan& below =
      run_plan().blocks[static_cast<std::size_t>(block()) - 2];
  // A block that runs free may have taken none of those it waits for.
  const std::int64_t under_way =
      below.in_flight > 0
          ? below.in_flight - 1
          : gradient_taken_after(below).value_or(0) - plan().delay;
  if (settings_.checkpoint_folder.empty() || under_way <= 0) return;
  sent_down_[batch] = down;
  while (std::ssize(sent_down_) > under_way)
    sent_down_.erase(sent_down_.begin());
}

/// The norm of the whole model, of which the sum came down with the gradients:
/// block 1 ends it, and it goes up.
double Worker::exchange_norm(const Action& action) {
  const double norm =
      block() == 1
          ? std::sqrt(
                squared_norm(pending_.gradients, pending_.squared_norm_above))
          : unpack(receive(*parts_.below.receiver, MessageKind::norm, action),
                   "norm")
                .at(0)
                .item<double>();
  if (!is_last()) {
    Message message = message_of(MessageKind::norm, action);
    pack({at::scalar_tensor(norm, at::kDouble)}, "norm", message);
    send(*parts_.above.sender, std::move(message));
  }
  return norm;
}

void Worker::update(const Action& action) {
  UpdateInfo info{.turn = action.turn,
                  .batches = pending_.batches,
                  .turns = pending_.turns,
                  .in_batches = pending_.in_batches,
                  .in_updates = pending_.in_updates,
                  .rate = rate_of(*update_, action)};
  if (run_plan().model_norm) info.model_norm = exchange_norm(action);
  const double rate = update_->apply(pending_.gradients, info);
  ++version_;
  // The gradients themselves are kept for those who look at them.
  pending_ = {.gradients = std::move(pending_.gradients)};
  if (is_logged(action)) log_.updated(action, rate);
  if (settings_.hashes) hash(action);
}

void Worker::hash(const Action& action) {
  NamedTensors gradients;
  for (std::size_t i = 0; i < trained_.size(); ++i)
    gradients.emplace_back(trained_[i].first, pending_.gradients[i]);
  log_.hashed(action, gradients, weights());
}

double Worker::rate_of(const UpdateChain& update, const Action& action) const {
  return update.rate_at(action.turn, settings_.turns,
                        settings_.turns_per_epoch);
}

void Worker::learn(const Action& action) {
  last_turn_ = action.turn;
  ToLearn batch = std::move(lessons_.extract(action.batch).mapped());
  if (!plan().gradient_from_above) {
    Down arrived = receive_from_above(action);
    if (!arrived.gradients.empty())
      batch.from_above = std::move(arrived.gradients.front());
    batch.answer = std::move(arrived.answer);
  }
  const Unchanged unchanged(
      {&batch.features, &batch.from_above, &batch.answer});
  Lesson lesson =
      lower().learn({.turn = action.turn,
                     .batch = action.batch,
                     .features = batch.features,
                     .labels = batch.labels,
                     .from_above = batch.from_above,
                     .pass = batch.pass,
                     .answer = batch.answer,
                     .share = plan().micro_batches.share_of(action.batch)});
  unchanged.check(fmt::format("the policy above block {}", block()));
  step(learners(), std::move(lesson.gradients), action);
  if (action.turn % settings_.log_every == 0)
    log_.learned(action, lesson.loss_name, lesson.loss);
}

void Worker::step(Learners& learners, Tensors gradients, const Action& action) {
  SLUICE_CHECK(gradients.size() == learners.tensors.size(),
               "the policy gave {} gradients for {} tensors that learn",
               gradients.size(), learners.tensors.size());
  learners.update->apply(
      gradients,
      {.turn = action.turn, .rate = rate_of(*learners.update, action)});
}

bool Worker::is_logged(const Action& action) const {
  return action.turn % settings_.log_every < plan().accumulate;
}

void Worker::evaluate(const Action& action) {
  const at::NoGradGuard no_grad;
  if (action.batch == 0) evaluation_ = {};
  const Payload fed =
      take_payload(action, MessageKind::evaluation, parts_.evaluation.get());
  const Tensors outputs =
      parts_.block.forward(fed.features, pass_for(action, false));
  send_up(action, MessageKind::evaluation, outputs, fed);
  if (!is_last()) return;
  evaluation_.add(settings_.loss, outputs[0], on_device(fed.labels, device()));
  if (action.batch + 1 == settings_.validation_batches)
    validation_ = std::exchange(evaluation_, {});
  if (action.batch + 1 == settings_.evaluation_batches)
    log_.evaluated(action, evaluation_,
                   settings_.validation_batches > 0 ? &validation_ : nullptr);
}

void Worker::checkpoint(const Action& action) {
  // A drain goes on with turns that forward nothing.
  if (last_turn_ >= action.turn) first_batch_ = action.turn;
  if (settings_.checkpoint_folder.empty()) return;
  save_block(settings_.checkpoint_folder, action.batch, block(), weights(),
             state());
}

}  // namespace sluice
