#include "lib/workers/seat.h"

#include <optional>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/schedules/program.h"
#include "lib/tensors/current_device.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/out_of_memory.h"
#include "lib/tensors/pack.h"
#include "lib/tensors/staging.h"
#include "lib/updates/clipping.h"
#include "lib/weights/block_weights.h"

namespace sluice {

Seat::Seat(int seat, SeatSettings settings, SeatParts parts)
    : number_(seat),
      settings_(std::move(settings)),
      block_(std::move(parts.block)),
      codec_below_(std::move(parts.codec_below)),
      codec_above_(std::move(parts.codec_above)),
      sources_(std::move(parts.sources)),
      memory_(std::move(parts.memory)),
      trained_(block_,
               {.optimizer = settings_.optimizer,
                .mean = settings_.options.accumulate_mean,
                .share = share()},
               parts.lowers, parts.uppers),
      replicas_(block_, trained_, settings_.replicas, std::move(parts.replicas),
                settings_.options.seed),
      evaluated_(block_, trained_),
      clock_(device()),
      timeline_(seat, parts.sink, settings_.options.traced),
      ports_(run_plan(), seat, std::move(parts.below), std::move(parts.above),
             clock_, timeline_, settings_.patience),
      log_(plan(), parts.sink, settings_.turns_per_epoch,
           settings_.late_updates),
      watched_(block_, std::move(parts.observer)) {
  SLUICE_CHECK(parts.lowers.size() == settings_.plans.size(),
               "{} lower ends for {} phases", parts.lowers.size(),
               settings_.plans.size());
  if (settings_.optimizer.average > 0 && replica() == 1)
    average_.emplace(settings_.optimizer.average, trained_.tensors());
  enter(0, 0);
}

void Seat::enter(std::int64_t phase, std::int64_t turn) {
  if (view_ && phase == phase_) return;
  SLUICE_CHECK(held_.empty(),
               "block {}: phase {} begins with batches in flight", block(),
               phase);
  phase_ = phase;
  first_batch_ = turn;
  sent_down_ = {};
  window_ = {};
  known_late_.clear();
  ledger_ = {};
  view_ = make_weight_view(
      plan(), {.block = block_,
               .update = trained_.update(),
               .statistics = plan().statistics.value_or(StatisticsAt::forward),
               .saved = !settings_.checkpoint_folder.empty() ||
                        settings_.optimizer.wants_forward_weights});
}

void Seat::execute(const Action& action) {
  const CurrentDevice on(device());  // seats of one thread may have several
  try {
    measure(action);
  } catch (const c10::Error& error) {
    if (is_out_of_gpu_memory(error))
      throw out_of_gpu_memory(name(), device(), error);
    throw;
  }
}

void Seat::measure(const Action& action) {
  watched_.before(action);
  timeline_.begins(action);
  clock_.measure(action.op, [&] { perform(action); });
  timeline_.ends(action, plan().staleness_of(action), ports_.below(),
                 ports_.above());
  if (settings_.status) tell_status(action);
  watched_.tell();
}

void Seat::tell_status(const Action& action) {
  constexpr double kPeriod = 1;  // s
  if (seconds_since(told_) < kPeriod) return;
  told_ = std::chrono::steady_clock::now();
  log_.status(action, clock_.spent().waiting, ports_.below(), ports_.above());
}

void Seat::perform(const Action& action) {
  std::optional<MemoryScope> memory;
  if (memory_) memory.emplace(*memory_);
  const PrecisionScope precision(settings_.options.precision, device().type());
  enter(action.phase, action.turn);
  served_as_ = 0;
  SLUICE_CHECK(ledger_.may(action), "{} ({}) lacks {}", name(), to_text(action),
               ledger_.lacks(action));
  static const ByOp<void (Seat::*)(const Action&)> does = {
      {Op::forward, &Seat::forward},
      {Op::backward, &Seat::backward},
      {Op::update, &Seat::update},
      {Op::learn, &Seat::learn},
      {Op::evaluate, &Seat::evaluate},
      {Op::save, &Seat::checkpoint},
      {Op::learn_input, &Seat::learn_input},
      {Op::backward_input, &Seat::backward_input},
      {Op::backward_weights, &Seat::backward_weights},
      {Op::exchange, &Seat::exchange},
      {Op::settle, &Seat::settle}};
  if (const auto work = does[action.op]) (this->*work)(action);
  ledger_.did(plan(), action);
}

const RunPlan& Seat::run_plan() const {
  return settings_.plans.at(phase());
}

const BlockPlan& Seat::plan() const {
  return by_block(run_plan().blocks, number_);
}

std::string Seat::name() const {
  return name_of_seat(run_plan(), number_);
}

bool Seat::is_last() const {
  return block() == run_plan().depth();
}

Pass Seat::pass_for(std::int64_t batch, bool training) const {
  return {.seed = settings_.options.seed,
          .batch = training ? plan().micro_batches.source_batch(batch) : batch,
          .training = training,
          .masks = settings_.options.masks};
}

/// What of each parameter this replica steps.
Share Seat::share() const {
  if (!plan().exchange.shards) return {};
  return {plan().replica, plan().exchange.members};
}

double Seat::rate_of(const UpdateChain& update, std::int64_t turn) const {
  const std::int64_t ahead = plan().micro_batches.deals.turns_ahead();
  return update.rate_at(turn + ahead, settings_.turns + ahead,
                        settings_.turns_per_epoch);
}

double Seat::share_of(const Action& action) const {
  return plan().micro_batches.share_of(action.batch);
}

Message Seat::message_of(MessageKind kind, const Action& action) const {
  return {.kind = kind,
          .batch = action.batch,
          .turn = action.turn,
          .weight_version = version_,
          .round = action.round};
}

namespace {

/// A copy: the message's memory is the link's, which wants it back.
at::Tensor norm_in(const Message& message, const c10::Device& device) {
  return on_device(unpack(message, "norm").at(0), device).clone();
}

/// Of the one message that a backward takes which isn't made of visits.
std::int64_t round_from_above(const BlockPlan& plan) {
  return plan.visits.empty() ? 0 : plan.visits.front().arrivals.at(0).round;
}

}  // namespace

Payload Seat::read(Source& source, std::int64_t batch) const {
  const Batch data = source.batch(batch);
  Payload payload{
      {on_device(laid_out(data.inputs, settings_.options.memory_format),
                 device())},
      data.labels};
  if (data.raw_inputs.defined())
    payload.attachments[kRawInput] = data.raw_inputs;
  if (data.ids.defined()) payload.attachments[kSampleIds] = data.ids;
  return payload;
}

/// The input of a training batch, received or read.
Payload Seat::input(const Action& action) {
  if (block() == 1)
    return read(*sources_.training,
                plan().micro_batches.source_batch(action.batch));
  const Inbox::Input taken = ports_.input(action);
  if (ports_.has_inbox()) log_.took(taken.age, taken.reuse);
  return unpack_up(taken.message, plan(), codec_below_.get(), device());
}

Payload Seat::evaluation_input(const Action& action) {
  if (block() == 1) return read(*sources_.evaluation, action.batch);
  return unpack_up(ports_.evaluation(action), plan(), codec_below_.get(),
                   device());
}

InputContext Seat::input_context(const Action& action) {
  InputContext context{.turn = action.turn,
                       .batch = action.batch,
                       .pass = pass_for(action.batch, true),
                       .device = device()};
  if (plan().forwards_data())
    context.data = [this, batch = action.batch] {
      return read(*sources_.training, batch);
    };
  return context;
}

void Seat::send_up(Message message, const Tensors& outputs,
                   const Payload& fed) {
  if (is_last()) return;
  const bool is_training = message.kind == MessageKind::activation;
  pack_up(outputs, fed,
          is_training ? plan().relays : std::vector<std::string>(),
          codec_above_.get(), message);
  ports_.send_up(std::move(message));
}

/// On the block's device.
Attachments Seat::kept_of(const Payload& fed) const {
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

/// The updates ahead of it are those of all that is in flight, which is applied
/// before it.
Flight Seat::flight_of(const Action& action, const Payload& fed) const {
  const std::int64_t before = window_.batches + std::ssize(held_.flights);
  const std::int64_t in_window = plan().accumulate * plan().micro_batches.count;
  return {.inputs = leaves_of(fed.features, plan().gradient_to_below()),
          .labels = on_device(fed.labels, device()),
          .pass = pass_for(action.batch, true),
          .version = version_,
          .entry_version = plan().segment.below > 0 ? fed.version : version_,
          .attachments = kept_of(fed),
          .updates_ahead = before / in_window,
          .rate = rate_of(trained_.update(), action.turn)};
}

/// What all replicas have made of the weights that they share, once for each
/// version: before the first batch that sees it. What an update has left is
/// nobody's yet, so it is overwritten where it lies.
void Seat::take_shared() {
  if (!replicas_.share_weights() || window_.batches > 0 ||
      held_.have_version(version_))
    return;
  replicas_.before_forward();
}

void Seat::forward(const Action& action) {
  const Payload fed = ends().upper->inputs(input_context(action),
                                           [&] { return input(action); });
  take_shared();
  Flight flight = flight_of(action, fed);
  const Tensors outputs = view_->forward(flight);
  Message message = message_of(MessageKind::activation, action);
  message.weight_version = flight.version;
  if (plan().publishes)
    send_up(std::move(message),
            ends().lower->publish(action.batch, outputs, flight.attachments),
            fed);
  else
    send_up(std::move(message), outputs, fed);
  held_.flights.emplace(action.batch, std::move(flight));
  note_memory();
}

void Seat::learn_input(const Action& action) {
  const Payload from_below =
      unpack_up(ports_.from_below(MessageKind::activation, action), plan(),
                codec_below_.get(), device());
  Lesson lesson = ends().upper->learn(input_context(action), from_below);
  step(trained_.learners(ends().upper_learners), std::move(lesson.gradients),
       action);
  log_lesson(action, lesson);
}

void Seat::log_lesson(const Action& action, const Lesson& lesson) {
  if (action.turn % settings_.options.log_every == 0)
    log_.learned(action, lesson.loss_name, lesson.loss);
}

Down Seat::receive_from_above(const Action& action, std::int64_t round) {
  Action taken = action;
  taken.round = round;
  const Message message = ports_.from_above(MessageKind::gradient, taken);
  if (run_plan().model_norm)
    window_.squared_norm_above = norm_in(message, device());
  Down down = unpack_down(message, by_block(run_plan().blocks, number_ + 1),
                          codec_above_.get(), device());
  if (brings_losses())
    if (const Tensors losses = unpack(message, kLosses); !losses.empty())
      down.losses = losses[0];
  return down;
}

/// Whether those of the last block come down with the gradients: to the source,
/// or to the replicas of each block, which choose the best one by them.
bool Seat::brings_losses() const {
  return settings_.tells_losses || plan().exchange.adopts > 0;
}

/// For the source of each sample by itself, whatever the run's loss is made of:
/// as evaluations report it. For replicas the one that they train by.
at::Tensor Seat::losses_of(const Asked& asked) const {
  const at::NoGradGuard no_grad;
  if (!settings_.tells_losses)
    return asked.signal.loss.detach().to(at::kCPU, at::kDouble).reshape({1});
  const at::Tensor& outputs = asked.graph.outputs.at(0);
  const at::Tensor& labels = asked.flight.labels;
  Tensors losses;
  losses.reserve(static_cast<std::size_t>(outputs.size(0)));
  for (std::int64_t i = 0; i < outputs.size(0); ++i)
    losses.push_back(
        settings_.loss(outputs.narrow(0, i, 1), labels.narrow(0, i, 1)));
  return at::stack(losses).to(at::kCPU, at::kDouble);
}

/// The losses have come down to where the batch came from.
void Seat::tell_source(const Action& action, Asked& asked) {
  if (block() != 1 || !settings_.tells_losses || !asked.losses.defined())
    return;
  for (auto& figure : sources_.training->learn(
           plan().micro_batches.source_batch(action.batch), asked.losses))
    asked.signal.figures.push_back(std::move(figure));
}

/// A batch whose backward begins, with its graph. `returned`: the block's
/// output of it, where it came back.
Asked Seat::opened(const Action& action, Tensors returned) {
  Asked asked{.flight = held_.take_flight(action.batch)};
  asked.flight.returned = std::move(returned);
  if (settings_.optimizer.wants_forward_weights)
    asked.forward_weights = view_->weights_of(asked.flight);
  asked.graph = view_->graph_of(asked.flight, version_);
  memory_use_.raise_to(held_.memory(*view_, asked.flight.graph_bytes));
  return asked;
}

/// What comes from above, and what the end above the block makes of it.
Asked Seat::ask_above(const Action& action) {
  last_turn_ = action.turn;
  check_staleness(action);
  Down arrived;
  if (plan().gradient_from_above)
    arrived = receive_from_above(action, round_from_above(plan()));
  Tensors target_above;
  if (plan().target_from_above) {
    target_above = std::move(arrived.gradients.back());
    arrived.gradients.pop_back();
  }
  const bool is_one = plan().is_merged() && !arrived.gradients.empty();
  const Tensors from_above = is_one ? arrived.gradients.front() : Tensors();
  Asked asked = opened(action, std::move(arrived.returned));
  const Flight& flight = asked.flight;
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const Unchanged unchanged({&from_above, &target_above, &features});
  asked.pulls = pulls_of(plan(),
                         {.turn = action.turn,
                          .batch = action.batch,
                          .features = features,
                          .labels = flight.labels,
                          .from_above = from_above,
                          .pass = flight.pass,
                          .attachments = flight.attachments,
                          .target_above = target_above,
                          .share = share_of(action)},
                         arrived.gradients, *ends().lower,
                         ends().trained.size(), asked.signal);
  unchanged.check(fmt::format("the policy above block {}", block()));
  if (brings_losses())
    asked.losses = is_last() ? losses_of(asked) : std::move(arrived.losses);
  if (plan().learns)
    asked.lesson = {
        leaves_of(features, false),
        flight.labels,
        target_above.empty() ? sum_of(arrived.gradients) : target_above,
        flight.pass,
        arrived.answer,
        flight.attachments};
  return asked;
}

/// The gradients are part of the next update.
void Seat::apply(const Action& action, const Asked& asked,
                 const Tensors& parameters) {
  const Flight& flight = asked.flight;
  const Signal& signal = asked.signal;
  const std::int64_t in_batches = plan().staleness_of(action);
  const std::int64_t in_updates = version_ - flight.version;
  window_.add(
      trained_.in_order(parameters, signal.parameter_gradients, phase()),
      action.batch, plan().micro_batches);
  window_.in_batches.add(in_batches);
  window_.in_updates.add(in_updates);
  window_.forward_weights = asked.forward_weights;
  at::Tensor correct;
  if (signal.logits.defined() && is_logged(action))
    correct = correct_of(signal.logits, flight.labels);
  log_.applied(action, in_batches,
               {.loss = signal.loss,
                .correct = correct,
                .labels = predictions_in(flight.labels),
                .share = share_of(action),
                .figures = signal.figures});
  if (plan().exchange.adopts > 0)
    replicas_.lost(asked.losses, share_of(action));
  // Before a centre comes to it, or shared weights are updated, it is not known
  // how many others have come.
  if (pushes_gradients())
    known_late_.push_back(in_updates);
  else if (!replicas_.share_weights())
    tell_late(action, in_updates, replicas_.late_by(in_updates));
  watched_.applied(action, parameters);
}

/// What the end above the block asks of it by itself.
Asked Seat::ask_own(const Action& action) {
  last_turn_ = action.turn;
  check_staleness(action);
  Asked asked = opened(action);
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const Tensors nothing;
  const Unchanged unchanged({&features});
  asked.signal = signal_of({.turn = action.turn,
                            .batch = action.batch,
                            .features = features,
                            .labels = asked.flight.labels,
                            .from_above = nothing,
                            .pass = asked.flight.pass,
                            .attachments = asked.flight.attachments,
                            .share = share_of(action)},
                           *ends().lower, ends().trained.size());
  unchanged.check(fmt::format("the policy above block {}", block()));
  return asked;
}

/// Takes back the parts of the gradient that go the visit's way.
void Seat::visit(const Action& action) {
  const BackwardVisit& mine =
      plan().visits.at(static_cast<std::size_t>(action.round));
  if (action.round == 0) held_.halves.emplace(action.batch, ask_own(action));
  Asked& asked = held_.halves.at(action.batch);
  Pull pull{.signal = mine.own ? asked.signal.gradients : Tensors(),
            .applied = mine.applied,
            .leaving = mine.leaving};
  for (const Arrival& from : mine.arrivals)
    add_to(pull.signal,
           ends().lower->passed(
               receive_from_above(action, from.round).gradients.at(from.way)));
  const bool is_last = action.round + 1 == plan().rounds();
  const Pulled pulled = vjp(asked.graph, asked.flight.inputs, plan().leaving,
                            {pull}, /*keep_graph=*/!is_last);
  add_to(asked.parameters, pulled.parameters);
  if (mine.leaving != GradientPart::kStays)
    send_down(action, down_of(pulled.inputs, asked.flight.inputs));
  note_memory();
  if (!is_last) return;
  const Asked done = held_.take_half(action.batch);
  apply(action, done, done.parameters);
}

/// What the visit takes from below.
void Seat::forward_again(const Action& action, Asked& asked) {
  const Payload fed =
      unpack_up(ports_.from_below(MessageKind::activation, action), plan(),
                codec_below_.get(), device());
  asked.flight.inputs = leaves_of(fed.features, plan().gradient_to_below());
  const BuffersKept kept(block_);
  asked.graph.outputs = forward_with_graph(block_, asked.flight);
}

/// With what the visit takes from above.
void Seat::ask_again(const Action& action, Asked& asked) {
  const BackwardVisit& mine =
      plan().visits.at(static_cast<std::size_t>(action.round));
  Tensors from_above;
  for (const Arrival& from : mine.arrivals)
    from_above = receive_from_above(action, from.round).gradients.at(from.way);
  const Tensors features = leaves_of(asked.graph.outputs, true);
  const Unchanged unchanged({&from_above, &features});
  asked.signal =
      signal_of({.turn = action.turn,
                 .batch = action.batch,
                 .features = features,
                 .labels = asked.flight.labels,
                 .from_above = from_above,
                 .pass = asked.flight.pass,
                 .attachments = asked.flight.attachments,
                 .share = share_of(action),
                 .visit = {.round = action.round,
                           .goes_back = mine.goes_back,
                           .is_last = action.round + 1 == plan().rounds()}},
                *ends().lower, ends().trained.size());
  unchanged.check(fmt::format("the policy above block {}", block()));
}

void Seat::send_up_again(const Action& action, const Asked& asked) {
  SLUICE_CHECK(!asked.signal.published.empty(),
               "the policy above block {} publishes nothing in visit {}",
               block(), action.round);
  Message message = message_of(MessageKind::activation, action);
  message.round = action.round + 1;
  message.weight_version = asked.flight.version;
  const Payload again{.features = {}, .labels = asked.flight.labels};
  pack_up(asked.signal.published, again, {}, codec_above_.get(), message);
  ports_.send_up(std::move(message));
}

/// A visit in which the auxiliary variables of a batch move, or which tells
/// where to.
void Seat::sweep(const Action& action) {
  const BackwardVisit& mine =
      plan().visits.at(static_cast<std::size_t>(action.round));
  if (action.round == 0) {
    last_turn_ = action.turn;
    check_staleness(action);
    held_.halves.emplace(action.batch, opened(action));
  }
  Asked& asked = held_.halves.at(action.batch);
  if (mine.takes_input) forward_again(action, asked);
  if (mine.goes_back || !mine.arrivals.empty()) ask_again(action, asked);
  const bool leaves = mine.leaving != GradientPart::kStays;
  if (mine.goes_back && (mine.applied || leaves)) {
    const Pull pull{.signal = asked.signal.gradients,
                    .applied = mine.applied,
                    .leaving = mine.leaving};
    const Pulled pulled =
        vjp(asked.graph, asked.flight.inputs, plan().leaving, {pull});
    asked.parameters = pulled.parameters;
    if (leaves) send_down(action, down_of(pulled.inputs, asked.flight.inputs));
  }
  if (mine.publishes) send_up_again(action, asked);
  note_memory();
  if (action.round + 1 < plan().rounds()) return;
  const Asked done = held_.take_half(action.batch);
  apply(action, done, done.parameters);
}

void Seat::backward(const Action& action) {
  if (plan().sweeps) return sweep(action);
  if (plan().rounds() > 1) return visit(action);
  Asked asked = ask_above(action);
  const Pulled pulled =
      vjp(asked.graph, asked.flight.inputs, plan().leaving, asked.pulls);
  tell_source(action, asked);
  apply(action, asked, pulled.parameters);
  Down down = down_of(pulled.inputs, asked.flight.inputs);
  down.losses = asked.losses;
  send_down(action, down);
  if (plan().learns) held_.lessons[action.batch] = std::move(asked.lesson);
}

void Seat::backward_input(const Action& action) {
  SLUICE_CHECK(!run_plan().model_norm,
               "block {}: the norm goes down with the gradients of the weights",
               block());
  Asked asked = ask_above(action);
  const std::vector<Tensors> pulled =
      vjp_inputs(asked.graph, asked.flight.inputs, plan().leaving, asked.pulls,
                 asked.halves);
  send_down(action, down_of(pulled, asked.flight.inputs));
  held_.halves.emplace(action.batch, std::move(asked));
  note_memory();
}

void Seat::backward_weights(const Action& action) {
  Asked asked = held_.take_half(action.batch);
  Tensors pulled = vjp_weights(asked.pulls, asked.halves);
  pulled.resize(asked.graph.parameters.size());
  apply(action, asked, pulled);
  if (plan().learns) held_.lessons[action.batch] = std::move(asked.lesson);
}

void Seat::check_staleness(const Action& action) const {
  const std::int64_t staleness = plan().staleness_of(action);
  if (staleness <= settings_.options.max_staleness) return;
  throw UserError(
      "block {}: in turn {} it would apply the gradient of batch {}, {} "
      "batches old; max_staleness is {}",
      block(), action.turn, action.batch, staleness,
      settings_.options.max_staleness);
}

/// How late a gradient is, or those of so many batches, in updates of the
/// replica, and with the steps of others in between.
void Seat::tell_late(const Action& action, std::int64_t in_updates,
                     std::int64_t in_steps, std::int64_t batches) {
  log_.late_by(in_steps, batches);
  if (in_steps == in_updates || in_steps <= settings_.options.max_staleness)
    return;
  throw UserError(
      "block {}: in turn {} it would apply the gradient of batch {}, {} steps "
      "of the other replicas old; max_staleness is {}",
      block(), action.turn, action.batch, in_steps,
      settings_.options.max_staleness);
}

Down Seat::down_of(std::vector<Tensors> gradients,
                   const Tensors& inputs) const {
  Down down{std::move(gradients)};
  if (plan().returns_input) down.returned = leaves_of(inputs, false);
  if (plan().answers()) down.answer = ends().upper->answer(block_);
  return down;
}

void Seat::send_down(const Action& action, const Down& down) {
  if (!plan().gradient_to_below() && !plan().answers()) return;
  Message message = message_of(MessageKind::gradient, action);
  pack_down(down, codec_below_.get(), message);
  if (!settings_.checkpoint_folder.empty())
    sent_down_.remember(action.batch, down, under_way_below());
  if (run_plan().model_norm)
    pack({squared_norm(window_.gradients, window_.squared_norm_above)}, "norm",
         message);
  ports_.send_down(std::move(message));
}

/// As many as the block below may not have taken yet when both have done the
/// same turns. A block that runs free may have taken none of those it waits
/// for.
std::int64_t Seat::under_way_below() const {
  const BlockPlan& below = by_block(run_plan().blocks, number_ - 1);
  return below.in_flight > 0
             ? below.in_flight - 1
             : gradient_taken_after(below).value_or(0) - plan().delay;
}

/// The norm of the whole model, of which the sum came down with the gradients:
/// block 1 ends it, and it goes up.
at::Tensor Seat::exchange_norm(const Action& action) {
  at::Tensor norm =
      block() == 1
          ? squared_norm(window_.gradients, window_.squared_norm_above).sqrt()
          : norm_in(ports_.from_below(MessageKind::norm, action), device());
  if (!is_last()) {
    Message message = message_of(MessageKind::norm, action);
    pack({norm}, "norm", message);
    ports_.send_up(std::move(message));
  }
  return norm;
}

double Seat::apply_window(const UpdateInfo& info) {
  if (shared_.empty())
    return trained_.apply(window_.gradients, info, view_->next_weights());
  std::vector<Tensors> shared = std::exchange(shared_, {});
  const double rate = replicas_.apply(shared, info, view_->next_weights());
  window_.gradients = std::move(shared.front());
  return rate;
}

/// Whether a centre makes the block's updates, of the gradients that it is
/// given.
bool Seat::pushes_gradients() const {
  return replicas_.is_served() && replicas_.what() == Exchanged::gradients;
}

UpdateInfo Seat::info_of(const Action& action) const {
  UpdateInfo info = window_.info();
  info.turn = action.turn;
  info.rate = rate_of(trained_.update(), action.turn);
  return info;
}

/// The weights that the centre has made of the window's gradients.
double Seat::take_served() {
  const Served served = std::exchange(served_, {});
  trained_.assign(served.tensors, view_->next_weights());
  version_ = served.clock;
  return served.rate;
}

void Seat::update(const Action& action) {
  UpdateInfo info = info_of(action);
  if (replicas_.what() == Exchanged::gradients &&
      plan().exchange.graph.is_all())
    info.replicas = replicas_.members();
  if (run_plan().model_norm) info.model_norm = exchange_norm(action);
  view_->before_update(version_);
  replicas_.before_update();
  const double rate = pushes_gradients() ? take_served() : apply_window(info);
  trained_.add(std::exchange(pulls_, {}));
  if (replicas_.share_weights()) {
    const std::int64_t in_updates = window_.in_updates.most;
    tell_late(action, in_updates, replicas_.late_by(in_updates),
              window_.batches);
  }
  replicas_.after_update();
  if (!pushes_gradients()) ++version_;
  last_rate_ = rate;
  window_.clear();
  log_.went_on();
  if (is_logged(action)) log_.updated(action, rate);
  if (!replicas_.gathers()) take_weights(action);
}

/// All of the weights are those after the update.
void Seat::take_weights(const Action& action) {
  view_->after_update();
  if (average_) average_->follow(trained_.tensors());
  if (settings_.options.hashes) hash(action);
}

void Seat::exchange(const Action& action) {
  if (action.round == kAgreement)
    replicas_.publish_agreement();
  else if (action.round == kGather)
    replicas_.publish_parts();
  else if (action.round == kAdopt)
    replicas_.publish_whole();
  else if (replicas_.is_served())
    return;  // it is on its way: what it brings, the settle hands over
  else if (is_among_peers(plan(), action))
    replicas_.publish_to(peers_of(plan(), action), window_.gradients);
  else if (action.round == kSecondRound)
    replicas_.publish_second();
  else
    replicas_.publish(window_.gradients,
                      {.number = version_, .epoch = epoch_of(action.turn)});
}

double Seat::epoch_of(std::int64_t turn) const {
  return static_cast<double>(turn + plan().micro_batches.deals.turns_ahead()) /
         static_cast<double>(settings_.turns_per_epoch);
}

void Seat::settle(const Action& action) {
  const SeatClock::Waiting waiting(clock_);
  if (action.round == kAgreement) return replicas_.settle_agreement(evaluated_);
  if (action.round == kGather) {
    replicas_.settle_parts();
    take_weights(action);
    return;
  }
  if (action.round == kAdopt) return take_combined(replicas_.settle_best());
  if (replicas_.is_served()) return visit_centre(action);
  if (is_among_peers(plan(), action)) return settle_peers();
  const bool is_first =
      plan().exchange.rounds > 1 && action.round != kSecondRound;
  if (is_first) return replicas_.settle_first();
  Tensors sum = replicas_.settle();
  if (replicas_.what() == Exchanged::gradients)
    window_.gradients = std::move(sum);
  else
    take_combined(replicas_.combine(sum, last_rate_));
}

void Seat::visit_centre(const Action& action) {
  Served served =
      replicas_.visit_centre(window_.gradients, info_of(action), version_);
  SLUICE_CHECK(action.arrived == 0 || action.arrived == served.place,
               "{} ({}) was served as number {}", name(), to_text(action),
               served.place);
  served_as_ = served.place;
  if (!pushes_gradients()) return take_combined(std::move(served.tensors));
  for (const std::int64_t known : std::exchange(known_late_, {}))
    tell_late(action, known, known + served.missed);
  served_ = std::move(served);
}

void Seat::settle_peers() {
  if (replicas_.what() == Exchanged::gradients)
    shared_ = replicas_.settle_gradients();
  else
    take_combined(replicas_.settle_mixed());
}

/// What the replicas have made of their weights.
void Seat::take_combined(Tensors combined) {
  if (replicas_.what() == Exchanged::old_weights) {
    pulls_ = std::move(combined);
    return;
  }
  view_->before_update(version_);
  trained_.assign(combined, view_->next_weights());
  view_->after_update();
  ++version_;
}

void Seat::hash(const Action& action) {
  NamedTensors gradients;
  for (std::size_t i = 0; i < window_.gradients.size(); ++i)
    gradients.emplace_back(trained_.tensors()[i].first, window_.gradients[i]);
  log_.hashed(action, gradients, weights());
}

void Seat::learn(const Action& action) {
  last_turn_ = action.turn;
  ToLearn batch = held_.take_lesson(action.batch);
  if (!plan().gradient_from_above) {
    Down arrived = receive_from_above(action);
    if (!arrived.gradients.empty())
      batch.from_above = std::move(arrived.gradients.front());
    batch.answer = std::move(arrived.answer);
  }
  const Unchanged unchanged(
      {&batch.features, &batch.from_above, &batch.answer});
  Lesson lesson = ends().lower->learn({.turn = action.turn,
                                       .batch = action.batch,
                                       .features = batch.features,
                                       .labels = batch.labels,
                                       .from_above = batch.from_above,
                                       .pass = batch.pass,
                                       .attachments = batch.attachments,
                                       .answer = batch.answer,
                                       .share = share_of(action)});
  unchanged.check(fmt::format("the policy above block {}", block()));
  step(trained_.learners(ends().learners), std::move(lesson.gradients), action);
  log_lesson(action, lesson);
}

void Seat::step(Learners& learners, Tensors gradients, const Action& action) {
  SLUICE_CHECK(gradients.size() == learners.tensors.size(),
               "the policy gave {} gradients for {} tensors that learn",
               gradients.size(), learners.tensors.size());
  learners.update->apply(
      gradients,
      {.turn = action.turn, .rate = rate_of(*learners.update, action.turn)});
}

bool Seat::is_logged(const Action& action) const {
  return action.turn % settings_.options.log_every < plan().accumulate;
}

/// For what evaluates or saves them.
void Seat::show_average() {
  if (!average_) return;
  evaluated_.set_weights(average_->values());
  if (!plan().exchange.agrees)
    evaluated_.set_buffers(values_of(block_.buffers()));
}

void Seat::evaluate(const Action& action) {
  const at::NoGradGuard no_grad;
  if (action.batch == 0) {
    log_.settle();
    evaluation_ = {};
    show_average();
  }
  const Payload fed = evaluation_input(action);
  const Tensors outputs = evaluated_.block_for(block_).forward(
      fed.features, pass_for(action.batch, false));
  send_up(message_of(MessageKind::evaluation, action), outputs, fed);
  if (!is_last()) return;
  evaluation_.add(settings_.loss, outputs[0], on_device(fed.labels, device()));
  const std::int64_t done = action.batch + 1;
  if (done == settings_.validation_batches)
    validation_ = std::exchange(evaluation_, {});
  else if (done == settings_.validation_batches + settings_.training_batches)
    training_ = std::exchange(evaluation_, {});
  if (done == settings_.evaluation_batches)
    log_.evaluated(action, evaluation_,
                   settings_.validation_batches > 0 ? &validation_ : nullptr,
                   settings_.training_batches > 0 ? &training_ : nullptr);
}

void Seat::checkpoint(const Action& action) {
  // A drain goes on with turns that forward nothing.
  if (last_turn_ >= action.turn) first_batch_ = action.turn;
  log_.settle();  // a loss that ends the run is known before it is saved
  if (settings_.checkpoint_folder.empty()) return;
  show_average();
  save_block(settings_.checkpoint_folder, action.batch, {block(), replica()},
             evaluated_.in_place_of(weights()), state());
  if (evaluated_.are_others())
    save_own_weights(settings_.checkpoint_folder, action.batch, block(),
                     weights());
}

}  // namespace sluice
