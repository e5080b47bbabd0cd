#include "lib/replicas/centre/centre.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/metrics/clock_offset.h"
#include "lib/tensors/error_text.h"
#include "lib/tensors/sums.h"

namespace sluice {
namespace {

/// Copies, for a message's memory goes back to its link.
Tensors copies_received(const Tensors& received) {
  Tensors copies;
  for (const at::Tensor& tensor : received)
    copies.push_back(tensor.defined() ? tensor.clone() : tensor);
  return copies;
}

NamedTensors named_copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors)
    copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

/// What lost replicas had been dealt is to be dealt again; not what they have
/// been dealt since they returned.
DealtBatches with_returned(DealtBatches dealt, const std::vector<int>& lost) {
  std::erase_if(dealt.held, [&](const std::pair<int, std::int64_t>& held) {
    const bool is_lost =
        std::find(lost.begin(), lost.end(), held.first) != lost.end();
    if (is_lost) dealt.returned.push_back(held.second);
    return is_lost;
  });
  return dealt;
}

}  // namespace

Centre::Centre(CentreSetup setup, Answer answer)
    : setup_(std::move(setup)),
      answer_(std::move(answer)),
      served_(at::zeros({1}, at::kLong)),
      statistics_(static_cast<std::size_t>(setup_.members)),
      lost_(setup_.absent),
      last_place_(statistics_.size(), 0),
      merged_at_(statistics_.size(), 0),
      brought_(statistics_.size()),
      ready_(statistics_.size()),
      merges_seen_(statistics_.size(), 0) {
  if (setup_.quorum.is_there()) gathering_.emplace(setup_.quorum, members());
  if (gathering_)
    for (const int member : lost_) gathering_->lose(member, steady_seconds());
}

/// Fails with what goes wrong in it.
void Centre::guard(const std::string& what, const std::function<void()>& act) {
  const at::NoGradGuard no_grad;
  try {
    act();
  } catch (const std::exception& error) {
    fail({.text = fmt::format("{}: its centre could not {}: {}", setup_.name,
                              what, text_of(error))});
  }
}

void Centre::hear(int member, const Message& message) {
  if (!failure_) {
    guard(fmt::format("serve replica {}", member),
          [&] { respond(member, message); });
    if (!failure_ || told_.contains(member)) return;
  }
  answer_(member, message_of(*failure_));
}

void Centre::respond(int member, const Message& message) {
  const CentreMessage said = said_in(message);
  if (said == CentreMessage::open) return open(member, opening_in(message));
  if (said == CentreMessage::deal) {
    const DealRequest request = deal_in(message);
    dealer_.open(request.first, request.end);
    return answer_(member, message_of_dealt(dealer_.deal(member, request.end)));
  }
  if (!rule_)
    return before_.push_back(
        [this, member, message] { hear(member, message); });
  switch (said) {
    case CentreMessage::push:
      return answer_(member, served(push_in(message, member)));
    case CentreMessage::bring:
      return answer_(member, brought(push_in(message, member)));
    case CentreMessage::take:
      return take(member, number_in(message) != 0);
    case CentreMessage::arrival:
      return arrive(member, message);
    case CentreMessage::entry:
      return answer_(member, entry(member));
    default:
      throw LinkError("it has said {} to the centre", message.round);
  }
}

void Centre::open(int member, const CentreOpening& opening) {
  SLUICE_CHECK(!rule_, "{}: its centre is opened twice", setup_.name);
  opener_ = member;
  rule_ = setup_.make(opening.parameters);
  for (const auto& [name, tensor] : opening.parameters) names_.push_back(name);
  if (opening.state.empty())
    rule_->begin(values_of(opening.parameters), opening.clock);
  else
    restore(opening.state);
  dealer_.restore(with_returned(opening.batches, opening.returning));
  batches_.restore(opening.batches.served);
  for (const int member : lost_) rule_->lose(member);
  for (const int returning : opening.returning) rule_->lose(returning);
  for (const int returning : opening.returning) rule_->take_back(returning);
  for (const auto& each : std::exchange(before_, {})) each();
}

void Centre::restore(const NamedTensors& from) {
  const NamedTensors into = state();
  SLUICE_CHECK(from.size() == into.size(),
               "{}: its centre has {} tensors for {}", setup_.name, from.size(),
               into.size());
  for (std::size_t i = 0; i < into.size(); ++i)
    into[i].second.copy_(from[i].second);
}

/// The count by the names of what it is of, so that another cut finds it too.
NamedTensors Centre::state() const {
  NamedTensors all = rule_->state();
  for (const std::string& name : names_)
    all.emplace_back("served." + name, served_);
  return all;
}

DealtBatches Centre::batches() const {
  DealtBatches all = dealer_.dealt();
  all.served = batches_.bounds();
  return all;
}

std::int64_t Centre::kept_bytes() const {
  std::int64_t bytes = bytes_of(values_of(state()));
  for (const Tensors& each : statistics_) bytes += bytes_of(each);
  return bytes;
}

Message Centre::served(Push push) {
  dealer_.took(push.member, push.batch);
  const int member = push.member;
  const bool is_again = setup_.serves_once && !batches_.insert(push.batch);
  ServerAnswer served =
      is_again ? rule_->take_back(member) : rule_->serve(std::move(push));
  served.place = place_for(member);
  return message_of(served);
}

std::int64_t Centre::next_place() {
  const std::int64_t place = served_.item<std::int64_t>() + 1;
  served_.fill_(place);
  return place;
}

std::int64_t Centre::place_for(int member) {
  return by_block(last_place_, member) = next_place();
}

Message Centre::brought(Push push) {
  SLUICE_CHECK(gathering_.has_value(), "a centre that merges nothing");
  const int member = push.member;
  const std::int64_t place = place_for(member);
  by_block(merged_at_, member) = 0;
  if (gathering_->bring(member, push.batch, steady_seconds())) {
    push.tensors = copies_received(push.tensors);
    by_block(brought_, member) = std::move(push);
    merge_if_complete();
  } else {
    by_block(ready_, member) = merged_for(member, true);
  }
  return message_of(place, CentreMessage::bring);
}

void Centre::merge_if_complete() {
  if (!setup_.is_told && gathering_->is_complete()) merge();
}

void Centre::merge() {
  const std::vector<int> members = gathering_->merge(steady_seconds());
  std::vector<Push> pushes;
  pushes.reserve(members.size());
  for (const int member : members) {
    pushes.push_back(std::exchange(by_block(brought_, member), {}));
    dealer_.took(member, pushes.back().batch);
  }
  rule_->merge(std::move(pushes));
  ++merges_;
  for (const int member : members)
    by_block(ready_, member) = merged_for(member, false);
  give_to_waiting();
}

/// The result for a replica, fixed when its push is merged: others may be
/// merged before it takes that.
MergeResult Centre::merged_for(int member, bool is_late) {
  std::int64_t& seen = by_block(merges_seen_, member);
  MergeResult merged{.served = rule_->give(member),
                     .is_late = is_late,
                     .absent = merges_ - seen - (is_late ? 0 : 1),
                     .turn = gathering_->merged_turn()};
  merged.served.place = served_.item<std::int64_t>();
  by_block(merged_at_, member) = merged.served.place;
  seen = merges_;
  return merged;
}

void Centre::take(int member, bool told) {
  taking_.insert(member);
  if (!by_block(ready_, member) && told) return merge();
  give_to_waiting();
}

void Centre::give_to_waiting() {
  std::erase_if(taking_, [&](int member) {
    auto& mine = by_block(ready_, member);
    if (!mine) return false;
    answer_(member, message_of(*std::exchange(mine, std::nullopt)));
    return true;
  });
}

std::optional<Centre::SteadyTime> Centre::due() const {
  if (!gathering_ || taking_.empty() || setup_.is_told) return std::nullopt;
  const std::optional<double> due = gathering_->due();
  if (!due) return std::nullopt;
  return SteadyTime(std::chrono::duration_cast<SteadyTime::duration>(
      std::chrono::duration<double>(*due)));
}

void Centre::come_due() {
  guard("merge what replicas brought", [this] { merge(); });
}

void Centre::merge_those_who_wait() {
  if (!failure_ && gathering_ && gathering_->any_waits()) come_due();
}

void Centre::arrive(int member, const Message& message) {
  arrived_.insert(member);
  by_block(statistics_, member) = copies_received(statistics_in(message));
  if (gathering_) {
    gathering_->rest(member, steady_seconds());
    merge_if_complete();
  }
  rest_if_all_are_there();
}

void Centre::rest_if_all_are_there() {
  for (int member = 1; member <= members(); ++member)
    if (!arrived_.contains(member) && !lost_.contains(member)) return;
  CentreAtRest rest{.weights = rule_->consensus(),
                    .state = named_copies_of(state()),
                    .batches = batches(),
                    .kept_bytes = kept_bytes(),
                    .losses = std::exchange(losses_, {})};
  take_means(rest);
  if (setup_.quorum.follows_arrivals) rest.awaited = gathering_->awaited();
  for (const int member : std::exchange(arrived_, {}))
    answer_(member, said_at_rest(member, rest));
}

void Centre::take_means(CentreAtRest& rest) {
  std::vector<Tensors> brought;
  for (const int member : arrived_) {
    Tensors& its = by_block(statistics_, member);
    if (!setup_.is_of_several)
      brought.push_back(its);
    else if (member != opener_)
      brought.push_back(std::exchange(its, {}));
  }
  if (!setup_.is_of_several) {
    rest.statistics = agreed_statistics_ = mean_in_order(brought);
    return;
  }
  rest.statistics = by_block(statistics_, opener_);
  rest.visitors = mean_in_order(brought);
}

Message Centre::said_at_rest(int member, const CentreAtRest& rest) const {
  if (!setup_.is_of_several)
    return message_of_rest(member == opener_ ? &rest : nullptr);
  if (member != 1 && member != opener_) return message_of_rest(nullptr);
  const CentreAtRest told =
      member == 1
          ? CentreAtRest{.weights = rest.weights,
                         .statistics = rest.statistics,
                         .visitors = rest.visitors}
          : CentreAtRest{.state = rest.state, .kept_bytes = rest.kept_bytes};
  return message_of_rest(&told);
}

void Centre::leave(int member, bool is_replaced) {
  if (failure_) return;
  const bool goes_on = member != opener_ && !setup_.is_of_several &&
                       setup_.quorum.survives_loss(members());
  if (!goes_on)
    return fail(
        {.text = fmt::format("{}: replica {} is gone", setup_.name, member),
         .is_gone = true});
  if (!rule_)
    before_.emplace_back(
        [this, member, is_replaced] { leave(member, is_replaced); });
  else
    guard("go on without a replica", [&] { lose(member, is_replaced); });
}

void Centre::admit(int member) {
  if (failure_) return;
  SLUICE_CHECK(lost_.erase(member) == 1,
               "{}: replica {} joins, and is there already", setup_.name,
               member);
  if (gathering_) gathering_->admit(member);
  arrived_.erase(member);
  by_block(merges_seen_, member) = merges_;
  by_block(ready_, member).reset();
  by_block(last_place_, member) = by_block(merged_at_, member) = 0;
}

Message Centre::entry(int member) {
  CentreEntry entry{.served = rule_->take_back(member),
                    .statistics = agreed_statistics_};
  entry.served.place = place_for(member);
  return message_of(entry);
}

void Centre::lose(int member, bool is_replaced) {
  if (!lost_.insert(member).second) return;
  dealer_.take_back(member);
  rule_->lose(member);
  if (setup_.counts_losses) next_place();
  losses_.push_back({.member = member,
                     .place = served_.item<std::int64_t>(),
                     .served = by_block(last_place_, member),
                     .merged = by_block(merged_at_, member),
                     .rests = arrived_.contains(member)});
  if (gathering_) gather_without(member);
  if (!is_replaced) rest_if_all_are_there();
}

void Centre::gather_without(int member) {
  gathering_->lose(member, steady_seconds());
  by_block(brought_, member) = {};
  taking_.erase(member);
  merge_if_complete();
}

/// Answers all who wait. An error here stands before a replica's end, which it
/// may have caused.
void Centre::fail(CentreFailure failure) {
  if (failure_ && (!failure_->is_gone || failure.is_gone)) return;
  failure_ = std::move(failure);
  told_ = std::exchange(taking_, {});
  told_.merge(std::exchange(arrived_, {}));
  for (const int member : told_) answer_(member, message_of(*failure_));
  for (const auto& each : std::exchange(before_, {})) each();
}

}  // namespace sluice
