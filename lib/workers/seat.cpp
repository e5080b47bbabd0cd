#include "lib/workers/seat.h"

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/schedules/plan/op.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/gpu/current_device.h"
#include "lib/tensors/gpu/out_of_memory.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/tensors/leaves.h"
#include "lib/tensors/precision.h"
#include "lib/workers/graphed_lower.h"

namespace sluice {

Seat::Seat(int seat, SeatSettings settings, SeatParts parts)
    : number_(seat),
      settings_(std::move(settings)),
      block_(std::move(parts.block)),
      coded_below_(std::move(parts.codecs_below), parts.site_below,
                   BoundarySide::above),
      coded_above_(std::move(parts.codecs_above), parts.site_above,
                   BoundarySide::below),
      sources_(std::move(parts.sources)),
      memory_(std::move(parts.memory)),
      trained_(block_,
               {.optimizer = settings_.optimizer,
                .mean = settings_.options.accumulate_mean,
                .clipped = clips_own(),
                .graphs = settings_.options.graphs,
                .share = share()},
               settings_.options.graphs ? graphed_lowers(parts.lowers, block_)
                                        : parts.lowers,
               parts.uppers),
      replicas_(block_, trained_, settings_.replicas, std::move(parts.replicas),
                settings_.options.seed),
      evaluated_(block_, trained_),
      clock_(device()),
      timeline_(seat, parts.sink, settings_.options.traced),
      ports_(run_plan(), seat, std::move(parts.below), std::move(parts.above),
             clock_, timeline_, settings_.patience),
      log_(plan(), parts.sink, settings_.epochs, settings_.late_updates),
      watched_(block_, plan().replica, std::move(parts.observer)) {
  SLUICE_CHECK(parts.lowers.size() == settings_.plans.size(),
               "{} lower ends for {} phases", parts.lowers.size(),
               settings_.plans.size());
  if (settings_.options.graphs) block_.use_graphs();
  if (settings_.optimizer.averages() && replica() == 1)
    average_.emplace(average_rule(), trained_.tensors());
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
      plan(),
      {.block = block_,
       .update = trained_.update(),
       .statistics =
           plan().weights.statistics.value_or(StatisticsPass::forward),
       .saved = !settings_.checkpoint_folder.empty() ||
                settings_.optimizer.wants_forward_weights,
       .look_ahead =
           settings_.optimizer.look_ahead ? settings_.optimizer.momentum : 0});
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

namespace {

/// Whether it computes layers: updates and exchanges are made in full
/// precision, whoever makes them.
bool computes_layers(Op op) {
  return op != Op::update && op != Op::exchange && op != Op::settle &&
         op != Op::save;
}

}  // namespace

void Seat::perform(const Action& action) {
  std::optional<MemoryScope> memory;
  if (memory_) memory.emplace(*memory_);
  const PrecisionScope precision(computes_layers(action.op)
                                     ? settings_.options.precision
                                     : Precision::fp32,
                                 device().type());
  enter(action.phase, action.turn);
  served_as_ = 0;
  SLUICE_CHECK(ledger_.may(action), "{} ({}) lacks {}", name(), to_text(action),
               ledger_.lacks(action));
  static const OpValues<void (Seat::*)(const Action&)> does = {
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

/// Whether it clips its gradients before the other replicas see them.
bool Seat::clips_own() const {
  return sluice::clips_own(settings_.optimizer, plan().exchange.what);
}

/// The share of each parameter that this replica steps.
Share Seat::share() const {
  if (!plan().exchange.shards) return {};
  return {plan().replica, plan().exchange.members};
}

AverageRule Seat::average_rule() const {
  const OptimizerOptions& options = settings_.optimizer;
  return options.average > 0 ? AverageRule{.decay = options.average}
                             : tail_of(options.tail_average, settings_.turns);
}

double Seat::rate_of(const UpdateChain& update, std::int64_t turn) const {
  return update.rate_at(turn, settings_.turns, settings_.epochs);
}

double Seat::share_of(const Action& action) const {
  return plan().micro_batches.share_of(action.batch);
}

/// Attachments that stay with a batch, on the block's device.
Attachments Seat::kept_of(const Payload& fed) const {
  Attachments kept;
  for (const auto* names : {&plan().lower.keeps, &plan().lower.relays})
    for (const std::string& name : *names)
      SLUICE_CHECK(fed.attachments.contains(name),
                   "block {} got no {} with its batch, which the policy of a "
                   "boundary needs",
                   block(), name);
  for (const std::string& name : plan().lower.keeps)
    kept[name] = on_device(fed.attachments.at(name), device());
  return kept;
}

/// A batch's flight. The updates ahead of it are those of all that is in
/// flight, which is applied before it.
Flight Seat::flight_of(const Action& action, const Payload& fed) const {
  const std::int64_t before = window_.batches + std::ssize(held_.flights);
  const std::int64_t in_window =
      plan().accumulate * plan().micro_batches.in_turn();
  return {.inputs = leaves_of(fed.features, plan().gradient_to_below()),
          .labels = on_device(fed.labels, device()),
          .pass = pass_for(action.batch, true),
          .version = version_,
          .entry_version = plan().segment.below > 0 ? fed.version : version_,
          .attachments = kept_of(fed),
          .updates_ahead = before / in_window,
          .rate = rate_of(trained_.update(), action.turn)};
}

void Seat::forward(const Action& action) {
  const Payload fed = ends().upper->inputs(input_context(action),
                                           [&] { return input(action); });
  take_shared();
  Flight flight = flight_of(action, fed);
  const Tensors outputs = view_->forward(flight);
  Message message = message_of(MessageKind::activation, action);
  message.weight_version = flight.version;
  if (plan().lower.publishes)
    send_up(std::move(message),
            ends().lower->publish(action.batch, outputs, flight.attachments),
            fed);
  else
    send_up(std::move(message), outputs, fed);
  held_.flights.emplace(action.batch, std::move(flight));
  note_memory();
}

/// Puts the averaged weights in place, to be evaluated or saved.
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
  const Tensors outputs =
      ends().lower->evaluated(evaluated_.block_for(block_).forward(
          fed.features, pass_for(action.batch, false)));
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
  log_.settle();   // a loss that ends the run is known before it is saved
  show_average();  // also where a replay compares it with what was saved
  if (settings_.checkpoint_folder.empty()) return;
  save_block(settings_.checkpoint_folder, action.batch, {block(), replica()},
             evaluated_.in_place_of(weights()), state());
  if (evaluated_.are_others())
    save_own_weights(settings_.checkpoint_folder, action.batch, block(),
                     weights());
}

}  // namespace sluice
