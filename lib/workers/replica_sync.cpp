#include "lib/workers/replica_sync.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/replicas/centre/centre.h"
#include "lib/replicas/centre/centre_messages.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/tensors/gpu/staging.h"
#include "lib/workers/exchanges/published.h"
#include "lib/workers/exchanges/statistics.h"

namespace sluice {
namespace {

/// Copies on the CPU, where centres are.
NamedTensors cpu_copies(const NamedTensors& tensors) {
  NamedTensors all;
  for (const auto& [name, tensor] : tensors)
    all.emplace_back(
        name, tensor.detach().to(at::kCPU, tensor.scalar_type(), false, true));
  return all;
}

/// Bytes of a centre, and of what it said.
std::int64_t bytes_with(const CentreAtRest& rest) {
  return rest.kept_bytes + bytes_of(rest.weights) + bytes_of(rest.statistics) +
         bytes_of(values_of(rest.state));
}

constexpr std::string_view kPrefix = "replicas.";

}  // namespace

ReplicaSync::ReplicaSync(const Block& block, TrainedTensors& trained,
                         const ReplicaKind& kind, Endpoints ways,
                         std::uint64_t seed)
    : block_(block),
      trained_(trained),
      kind_(kind),
      group_(std::move(ways.group)),
      centres_(std::move(ways.centres)) {
  const ReplicaSite site = rules_site(seed);
  if (group_) {
    if (kind_.compressor.make)
      compressed_ = kind_.compressor.make(what() == ExchangedTensors::gradients
                                              ? trained_.tensors()
                                              : trained_.all(),
                                          site);
    if (kind_.make) rules_ = kind_.make(trained_.all(), site);
  }
  if (centres_ && kind_.exchange.visits_partners)
    rules_ = kind_.make(trained_.tensors(), site);
  if (centres_ && kind_.adopt_every > 0)
    rules_.adoption = kind_.make(trained_.all(), {}).adoption;
  for (std::size_t kind = 0; kind < kExchanges; ++kind)
    exchanges_.at(kind) =
        make_exchange(static_cast<ExchangeKind>(kind), this->site());
}

ReplicaSite ReplicaSync::rules_site(std::uint64_t seed) const {
  ReplicaSite site{.seed = seed,
                   .compresses = kind_.compressor.make != nullptr,
                   .group = group_.get()};
  if (group_) {
    site.member = group_->member();
    site.members = group_->members();
  } else if (centres_) {
    site.member = centres_->member();
    site.members = centres_->members();
  }
  return site;
}

ExchangeSite ReplicaSync::site() {
  return {.block = block_,
          .trained = trained_,
          .kind = kind_,
          .rules = rules_,
          .group = group_.get(),
          .centres = centres_.get(),
          .compressed = compressed_.get()};
}

Exchange& ReplicaSync::exchange(ExchangeKind kind) {
  const auto& found = exchanges_.at(static_cast<std::size_t>(kind));
  SLUICE_CHECK(found, "block {}: its replicas have no exchange of {}",
               block_.index(), row_of(kind).name);
  return *found;
}

std::int64_t ReplicaSync::members() const {
  if (centres_) return centres_->members();
  return group_ ? group_->members() : 1;
}

void ReplicaSync::begin(std::int64_t clock) {
  if (std::exchange(has_begun_, true)) return;
  const at::NoGradGuard no_grad;
  if (rules_.policy && !was_restored_)
    rules_.policy->begin(values_of(trained_.all()));
  clock_ = clock;
  if (CentreLink* const own = own_centre())
    own->open({.parameters = cpu_copies(trained_.tensors()),
               .clock = clock,
               .state = restored_centre_,
               .batches = restored_batches_,
               .returning = returning_});
}

void ReplicaSync::finish() {
  if (centres_) centres_->finish();
}

void ReplicaSync::keep(ExchangeResult taken) {
  if (!taken.of_each.empty()) next_.of_each = std::move(taken.of_each);
  if (!taken.pulls.empty()) next_.pulls = std::move(taken.pulls);
  if (taken.update) next_.update = std::move(taken.update);
}

AppliedUpdate ReplicaSync::apply(Tensors& gradients, const UpdateInfo& info,
                                 const Tensors& storage) {
  MemoryRule* memory = rules_.memory.get();
  if (memory != nullptr) memory->before_update(storage_of(trained_.tensors()));
  AppliedUpdate applied;
  if (const auto given = std::exchange(next_.update, std::nullopt)) {
    trained_.assign(given->tensors, storage);
    applied = {.rate = given->rate, .clock = given->clock};
  } else if (next_.of_each.empty()) {
    applied.rate = trained_.apply(gradients, info, storage);
  } else {
    applied.rate = apply_steps(info, storage);
    gradients = std::move(std::exchange(next_.of_each, {}).front());
  }
  trained_.add(std::exchange(next_.pulls, {}));
  if (group_ && kind_.exchange.overlap > 0) take_travelled();
  if (memory != nullptr) {
    applied.late_by = memory->late_by(info.in_updates.most);
    memory->after_update(storage_of(trained_.tensors()));
  }
  return applied;
}

/// Takes the weights that the replicas came to while this one went on.
void ReplicaSync::take_travelled() {
  const at::NoGradGuard no_grad;
  if (const auto weights = rules_.policy->updated(values_of(trained_.all())))
    trained_.assign(*weights, {});
}

/// A step by the gradients of each replica; returns the rate of the last.
double ReplicaSync::apply_steps(const UpdateInfo& info, Tensors storage) {
  const at::NoGradGuard no_grad;
  StepRule& rule = *rules_.steps;
  const Tensors first = rule.before_steps();
  if (!first.empty()) trained_.assign(first, std::exchange(storage, {}));
  double rate = 0;
  for (std::size_t i = 0; i < next_.of_each.size(); ++i) {
    UpdateInfo told = rule.told_of_step(i, info);
    if (info.model_norm.defined())
      told.model_norm = info.model_norm[static_cast<std::int64_t>(i)];
    rate = trained_.apply(next_.of_each[i], told, std::exchange(storage, {}));
    rule.stepped(i, values_of(trained_.tensors()));
  }
  const Tensors last = rule.after_steps();
  if (!last.empty()) trained_.assign(last, {});
  return rate;
}

std::optional<std::int64_t> ReplicaSync::late_by(std::int64_t updates) const {
  if (pushes_gradients() || rules_.memory) return std::nullopt;
  return rules_.steps ? rules_.steps->late_by(updates) : updates;
}

void ReplicaSync::lost(const at::Tensor& loss, double share) {
  if (!rules_.adoption) return;
  const at::NoGradGuard no_grad;
  rules_.adoption->lost(loss, share);
}

void ReplicaSync::before_forward() {
  rules_.memory->before_forward(storage_of(trained_.tensors()));
}

std::optional<std::int64_t> ReplicaSync::centre_bytes() const {
  const CentreLink* const own = own_centre();
  if (own == nullptr || !own->at_rest()) return std::nullopt;
  return bytes_with(*own->at_rest());
}

std::optional<double> ReplicaSync::awaited() const {
  const CentreLink* const own = own_centre();
  if (own == nullptr || !own->at_rest()) return std::nullopt;
  const std::optional<double> awaited = own->at_rest()->awaited;
  return awaited && std::isfinite(*awaited) ? awaited : std::nullopt;
}

std::int64_t ReplicaSync::bytes_of_centre(int members) const {
  return bytes_with(rest_at_once(members));
}

/// What a centre of so many replicas says when all rest before they have
/// brought anything.
CentreAtRest ReplicaSync::rest_at_once(int members) const {
  const at::NoGradGuard no_grad;
  CentreAtRest rest;
  const auto make = [&](const NamedTensors& parameters) {
    return kind_.make_centre(
        parameters, {.options = trained_.options(), .members = members});
  };
  Centre centre({.members = members, .name = "a centre", .make = make},
                [&](int /*member*/, const Message& message) {
                  if (auto said = rest_in(message)) rest = *std::move(said);
                });
  centre.hear(
      1, message_of(CentreOpening{.parameters = cpu_copies(trained_.tensors()),
                                  .clock = clock_}));
  const Statistics statistics(block_, kind_.mean_statistics);
  for (int member = 1; member <= members; ++member)
    centre.hear(member,
                message_of_arrival(on_device(statistics.own(), c10::kCPU)));
  return rest;
}

/// State that the centre goes on with after a checkpoint: of the last
/// agreement, or that it is opened with.
NamedTensors ReplicaSync::centre_state() const {
  if (own_centre()->at_rest()) return own_centre()->at_rest()->state;
  if (!restored_centre_.empty()) return restored_centre_;
  return rest_at_once(centres_->members()).state;
}

std::optional<DealtBatches> ReplicaSync::centre_batches() const {
  const CentreLink* const own = own_centre();
  if (own == nullptr) return std::nullopt;
  return own->at_rest() ? own->at_rest()->batches : restored_batches_;
}

std::optional<std::int64_t> ReplicaSync::compressed_bytes() const {
  if (!compressed_) return std::nullopt;
  return compressed_->sent_bytes();
}

NamedTensors ReplicaSync::state() const {
  NamedTensors all;
  const auto add = [&](const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors)
      all.emplace_back(std::string(kPrefix) + name, tensor);
  };
  if (rules_.policy) add(rules_.policy->state());
  if (own_centre() != nullptr) add(centre_state());
  if (compressed_) add(compressed_->state());
  return all;
}

void ReplicaSync::restore(const NamedTensors& state, std::string_view source) {
  if (!rules_.policy && !compressed_ && !centres_) return;
  try {
    if (own_centre() != nullptr) restored_centre_ = centre_state();
    copy_by_name(state, this->state(), source);
  } catch (const UserError& error) {
    throw UserError(
        "{}, which the replicas need: it was saved with other keys of "
        "[replicas]; to change these, begin a run with initial_weights = '{}'",
        error.what(), source);
  }
  was_restored_ = true;
}

NamedTensors centre_weights_in(const NamedTensors& state) {
  const std::string prefix = fmt::format("{}centre.", kPrefix);
  NamedTensors weights;
  for (const auto& [name, tensor] : state)
    if (name.starts_with(prefix))
      weights.emplace_back(name.substr(prefix.size()), tensor);
  return weights;
}

}  // namespace sluice
