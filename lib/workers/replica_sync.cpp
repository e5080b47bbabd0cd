#include "lib/workers/replica_sync.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "lib/base/error.h"
#include "lib/checkpoints/checkpoint.h"
#include "lib/updates/grouped.h"

namespace sluice {
namespace {

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors)
    copies.push_back(tensor.detach().clone());
  return copies;
}

/// Gradients in the memory order of the tensors that they are of.
Tensors laid_out_like(const NamedTensors& tensors, const Tensors& gradients) {
  Tensors all(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      all[i] = gradient_for(tensors.at(i).second, gradients[i]);
  return all;
}

/// Aliases, to be written behind the back of autograd.
Tensors storage_of(const NamedTensors& tensors) {
  Tensors all;
  for (const auto& [name, tensor] : tensors)
    all.push_back(tensor.variable_data());
  return all;
}

/// The replica, from 0, whose last tensor is the lowest number, the first of
/// several; one that isn't a number is the worst.
std::size_t best_of(const std::vector<Tensors>& published) {
  std::size_t best = 0;
  double lowest = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < published.size(); ++r) {
    const double badness = published[r].back().item<double>();
    if (!(badness < lowest)) continue;
    lowest = badness;
    best = r;
  }
  return best;
}

std::vector<std::string> names_of_each(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
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
      centre_(std::move(ways.centre)) {
  if (centre_ && centre_->owned() != nullptr)
    centre_->owned()->own(
        kind_.make_centre(trained_.tensors(), {.options = trained_.options(),
                                               .members = centre_->members(),
                                               .seed = seed}),
        names_of_each(trained_.tensors()),
        quorum_of(kind_, centre_->members()));
  if (!group_) return;
  if (kind_.compressor.make)
    compressed_ = kind_.compressor.make(trained_.tensors(),
                                        {.seed = seed,
                                         .member = group_->member(),
                                         .members = group_->members()});
  if (!kind_.make) return;
  policy_ = kind_.make(trained_.all());
  policy_->join(group_->member(), group_->members());
  policy_->meet(*group_);
}

std::int64_t ReplicaSync::members() const {
  if (centre_) return centre_->members();
  return group_ ? group_->members() : 1;
}

void ReplicaSync::begin(std::int64_t clock) {
  if (std::exchange(has_begun_, true)) return;
  const at::NoGradGuard no_grad;
  if (policy_ && !was_restored_) policy_->begin(weights());
  if (centre_ && centre_->owned() != nullptr)
    centre_->owned()->open(
        was_restored_ ? Tensors() : values_of(trained_.tensors()), clock);
}

void ReplicaSync::finish() {
  if (centre_) centre_->finish();
}

ServerAnswer ReplicaSync::visit_centre(const Tensors& gradients,
                                       const UpdateInfo& info,
                                       std::int64_t clock) {
  const at::NoGradGuard no_grad;
  return centre_->visit(push_of(gradients, info, clock));
}

std::int64_t ReplicaSync::bring(const Tensors& gradients,
                                const UpdateInfo& info, std::int64_t clock,
                                std::int64_t batch) {
  const at::NoGradGuard no_grad;
  Push push = push_of(gradients, info, clock);
  push.batch = batch;
  return centre_->bring(std::move(push));
}

Push ReplicaSync::push_of(const Tensors& gradients, const UpdateInfo& info,
                          std::int64_t clock) const {
  return {.member = centre_->member(),
          .tensors = what() == ExchangedTensors::gradients
                         ? laid_out_like(trained_.tensors(), gradients)
                         : copies_of(values_of(trained_.tensors())),
          .info = info,
          .clock = clock};
}

void ReplicaSync::publish(const Tensors& gradients,
                          const ExchangedUpdate& update) {
  if (compressed_)
    compressed_->start(laid_out_like(trained_.tensors(), gradients), update,
                       *group_);
  else if (sums_parts())
    group_->start_parts(laid_out_like(trained_.tensors(), gradients));
  else
    group_->start_sum(policy_ ? copies_of(weights()) : gradients);
}

/// The tensors that a policy exchanges.
Tensors ReplicaSync::weights() const {
  return values_of(trained_.all());
}

void ReplicaSync::publish_lesson(const Learners& learners,
                                 const Tensors& gradients) {
  group_->start_sum(laid_out_like(learners.tensors, gradients));
}

Tensors ReplicaSync::settle_lesson() {
  return group_->finish_sum();
}

/// A link that wants a norm, say, is given whole sums.
bool ReplicaSync::sums_parts() const {
  return gathers() && trained_.update().takes_parts();
}

void ReplicaSync::settle_first() {
  compressed_->finish_first(*group_);
}

void ReplicaSync::publish_second() {
  compressed_->start_second(*group_);
}

Tensors ReplicaSync::settle() {
  if (compressed_) return compressed_->finish(*group_);
  if (policy_) return group_->finish_mean();
  return sums_parts() ? group_->finish_parts() : group_->finish_sum();
}

void ReplicaSync::publish_parts() {
  group_->start_gather(storage_of(trained_.tensors()));
}

void ReplicaSync::settle_parts() {
  group_->finish_gather(storage_of(trained_.tensors()));
}

Tensors ReplicaSync::combine(const Tensors& mean, double rate) {
  const at::NoGradGuard no_grad;
  return policy_->combine(weights(), mean, group_->members(), rate);
}

void ReplicaSync::publish_to(const Peers& peers, const Tensors& gradients) {
  const at::NoGradGuard no_grad;
  peers_ = peers;
  own_ = what() == ExchangedTensors::gradients
             ? laid_out_like(trained_.tensors(), gradients)
             : policy_->publish(weights());
  group_->start_share(own_, peers);
}

Mixture ReplicaSync::settle_mixture() {
  Mixture mixture{.published = group_->finish_share(),
                  .parts = std::ssize(peers_.to) + 1};
  const auto place = std::lower_bound(peers_.from.begin(), peers_.from.end(),
                                      group_->member()) -
                     peers_.from.begin();
  mixture.published.insert(mixture.published.begin() + place,
                           std::exchange(own_, {}));
  mixture.own = static_cast<std::size_t>(place);
  return mixture;
}

double ReplicaSync::apply(std::vector<Tensors>& gradients,
                          const UpdateInfo& info, Tensors storage) {
  const at::NoGradGuard no_grad;
  const Tensors first = policy_->before_steps();
  if (!first.empty()) trained_.assign(first, std::exchange(storage, {}));
  double rate = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    UpdateInfo told = policy_->told_of_step(i, info);
    if (info.model_norm.defined())
      told.model_norm = info.model_norm[static_cast<std::int64_t>(i)];
    rate = trained_.apply(gradients[i], told, std::exchange(storage, {}));
    policy_->stepped(i, values_of(trained_.tensors()));
  }
  const Tensors last = policy_->after_steps();
  if (!last.empty()) trained_.assign(last, {});
  return rate;
}

void ReplicaSync::publish_whole() {
  const at::NoGradGuard no_grad;
  own_ = copies_of(values_of(trained_.tensors()));
  for (const auto& [name, buffer] : block_.buffers())
    own_.push_back(buffer.clone());
  own_.push_back(policy_->badness().clone());
  peers_ = {};
  for (int other = 1; other <= group_->members(); ++other)
    if (other != group_->member()) peers_.to.push_back(other);
  peers_.from = peers_.to;
  group_->start_share(own_, peers_);
}

Tensors ReplicaSync::settle_best() {
  const at::NoGradGuard no_grad;
  const Mixture mixture = settle_mixture();
  Tensors best = mixture.published.at(best_of(mixture.published));
  auto next = best.begin() + std::ssize(trained_.tensors());
  for (const auto& [name, buffer] : block_.buffers())
    buffer.variable_data().copy_(*next++);
  best.resize(trained_.tensors().size());
  policy_->adopted();
  return best;
}

void ReplicaSync::lost(const at::Tensor& loss, double share) {
  const at::NoGradGuard no_grad;
  policy_->lost(loss, share);
}

void ReplicaSync::before_forward() {
  policy_->before_forward(storage_of(trained_.tensors()));
}

void ReplicaSync::before_update() {
  if (share_weights()) policy_->before_update(storage_of(trained_.tensors()));
}

void ReplicaSync::after_update() {
  if (share_weights()) policy_->after_update(storage_of(trained_.tensors()));
}

Tensors ReplicaSync::settle_mixed() {
  const Mixture mixture = settle_mixture();
  const at::NoGradGuard no_grad;
  return policy_->mix(weights(), mixture);
}

/// Statistics of the block: those that are numbers of a kind that has means.
Tensors ReplicaSync::buffers() const {
  Tensors all;
  if (!kind_.mean_statistics) return all;
  for (const auto& [name, buffer] : block_.buffers())
    if (buffer.is_floating_point()) all.push_back(buffer);
  return all;
}

void ReplicaSync::publish_agreement() {
  const at::NoGradGuard no_grad;
  if (centre_) return centre_->arrive(copies_of(buffers()));
  if (policy_) policy_->before_agreement();
  Tensors all = policy_ ? policy_->agreed(weights()) : Tensors();
  for (at::Tensor& buffer : buffers()) all.push_back(std::move(buffer));
  group_->start_sum(copies_of(all));
}

void ReplicaSync::settle_agreement(EvaluatedWeights& evaluated) {
  const at::NoGradGuard no_grad;
  if (centre_) {
    centre_->await_rest();
    if (const Centre* centre = centre_->owned())
      show(centre->at_rest().weights, centre->at_rest().statistics, evaluated);
    return;
  }
  Tensors mean = group_->finish_mean();
  if (policy_) policy_->after_agreement();
  if (group_->member() > 1) return;
  const std::size_t count = policy_ ? trained_.all().size() : 0;
  const Tensors of_buffers(mean.begin() + static_cast<std::ptrdiff_t>(count),
                           mean.end());
  mean.resize(count);
  show(policy_ ? policy_->consensus(mean, group_->members())
               : values_of(trained_.tensors()),
       of_buffers, evaluated);
}

/// statistics: means of the buffers() of the replicas.
void ReplicaSync::show(const Tensors& weights, const Tensors& statistics,
                       EvaluatedWeights& evaluated) const {
  evaluated.set_weights(weights);
  Tensors buffers = values_of(block_.buffers());
  std::size_t next = 0;
  for (at::Tensor& buffer : buffers)
    if (kind_.mean_statistics && buffer.is_floating_point())
      buffer = statistics.at(next++);
  evaluated.set_buffers(buffers);
}

std::optional<std::int64_t> ReplicaSync::centre_bytes() const {
  if (!centre_ || centre_->owned() == nullptr) return std::nullopt;
  return centre_->owned()->kept_bytes();
}

std::int64_t ReplicaSync::bytes_of_centre(int members) const {
  const at::NoGradGuard no_grad;
  Centre centre(members, Deadline(0), "a centre");
  centre.own(
      kind_.make_centre(trained_.tensors(),
                        {.options = trained_.options(), .members = members}),
      names_of_each(trained_.tensors()));
  centre.open(values_of(trained_.tensors()), 0);
  for (int member = 1; member <= members; ++member)
    centre.arrive(member, copies_of(buffers()));
  return centre.kept_bytes();
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
  if (policy_) add(policy_->state());
  if (centre_ && centre_->owned() != nullptr) add(centre_->owned()->state());
  if (compressed_) add(compressed_->state());
  return all;
}

void ReplicaSync::restore(const NamedTensors& state, std::string_view source) {
  if (!policy_ && !compressed_ && !centre_) return;
  try {
    copy_by_name(state, this->state(), source);
  } catch (const UserError& error) {
    throw UserError(
        "{}, which the replicas need: it was saved with other keys of "
        "[replicas]; to change these, begin a run with initial_weights = '{}'",
        error.what(), source);
  }
  was_restored_ = true;
}

void ReplicaSync::rejoin(int member) {
  if (centre_ && centre_->owned() != nullptr) centre_->owned()->rejoin(member);
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
