#include "tests/lib/workers/seats_under_test.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>

#include <ATen/ATen.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/boundaries/policies/top_loss.h"
#include "lib/schedules/orders/rows.h"

namespace sluice::seats_under_test {
namespace {

class OneNumber final : public Layer {
 public:
  explicit OneNumber(double value) {
    weight_ = register_parameter("weight", at::full({1}, value, at::kFloat));
  }
  Tensors forward(const Tensors& inputs, const Pass& /*pass*/) override {
    return {inputs.at(0) * weight_};
  }

 private:
  at::Tensor weight_;
};

std::unique_ptr<Seat> make_seat(const RunPlan& plan, int number, double weight,
                                std::pair<Link, Link> links,
                                const SeatChain::Change& change) {
  const BlockPlan& mine = by_block(plan.blocks, number);
  SeatSettings settings{.plans = {plan}, .turns = 100, .loss = half_square};
  settings.optimizer.learning_rate.base = kRate;
  const auto top = mine.block == plan.depth();
  SeatParts parts{
      .block = Block(
          mine.block, mine.block - 1,
          [=] { return Layers{std::make_shared<OneNumber>(weight)}; },
          MemoryFormat::contiguous),
      .lowers = {top ? std::shared_ptr<Lower>(make_top_loss(half_square))
                     : std::make_shared<PlainLower>()},
      .below = std::move(links.first),
      .above = std::move(links.second),
      .sources = {.training = std::make_shared<CountingSource>(),
                  .evaluation = std::make_shared<CountingSource>()}};
  if (change) change(number, settings, parts);
  return std::make_unique<Seat>(number, std::move(settings), std::move(parts));
}

}  // namespace

Batch CountingSource::batch(std::int64_t t) {
  return {.index = t,
          .inputs = at::full({1, 1}, static_cast<double>(t) + 1, at::kFloat),
          .labels = at::zeros({1, 1})};
}

at::Tensor half_square(const at::Tensor& outputs, const at::Tensor& labels) {
  return (outputs - labels).square().sum() / 2;
}

Signal PlainLower::signal(const BatchContext& context) {
  Signal signal;
  if (traits_.own) signal.gradients = {context.features[0].detach()};
  if (context.from_above.empty()) return signal;
  signal.gradients = traits_.own
                         ? Tensors{signal.gradients[0] + context.from_above[0]}
                         : context.from_above;
  return signal;
}

Lesson PlainLower::learn(const BatchContext& context) {
  learned_from = context.from_above;
  return {};
}

SeatChain::SeatChain(std::vector<double> weights, const RunPlan& plan,
                     const Change& change)
    : plan_(plan) {
  constexpr std::size_t kRoom = 100;
  Link below;
  for (std::size_t i = 0; i < plan.blocks.size(); ++i) {
    const bool is_top = plan.blocks[i].block == plan.depth();
    auto [mine, next] =
        is_top ? std::pair<Link, Link>()
               : memory_link(kRoom, kRoom, std::chrono::seconds(20));
    seats_.push_back(make_seat(plan, static_cast<int>(i) + 1,
                               by_block(weights, plan.blocks[i].block),
                               {std::move(below), std::move(mine)}, change));
    below = std::move(next);
  }
}

std::vector<double> SeatChain::all_weights() {
  std::vector<double> all;
  for (int k = 1; k <= static_cast<int>(seats_.size()); ++k)
    all.push_back(weight(k));
  return all;
}

double SeatChain::only(const Tensors& tensors) {
  SLUICE_CHECK(tensors.size() == 1, "{} tensors", tensors.size());
  return tensors[0].item<double>();
}

void SeatChain::start(const Grant& grant) {
  for (const auto& seat : seats_) seat->start(grant);
}

void SeatChain::execute(int number, const char* actions, ExchangeKind kind) {
  for (Action action : actions_from_text(actions, kind)) {
    action.turn = action.batch;
    seat(number).execute(action);
  }
}

void SeatChain::run(const Grant& grant, const std::vector<int>& order) {
  std::vector<std::vector<Action>> all;
  for (const BlockPlan& block : plan_.blocks)
    all.push_back(actions_of(block, grant));
  std::vector<std::size_t> done(all.size());
  // Replicas of a block have the same actions up to an exchange.
  const auto all_have_published = [&](int number) {
    for (const BlockPlan& other : plan_.blocks)
      if (other.block == seat(number).block() &&
          by_block(done, other.seat()) < by_block(done, number))
        return false;
    return true;
  };
  const auto advance = [&](int number) {
    const auto& mine = by_block(all, number);
    std::size_t& next = by_block(done, number);
    if (next == mine.size()) return false;
    Action action = mine[next];
    if (action.op == Op::settle && !all_have_published(number)) return false;
    if (!seat(number).is_ready(action)) return false;
    seat(number).execute(action);
    ++next;
    return true;
  };
  while (std::any_of(order.begin(), order.end(), advance)) {
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    SLUICE_CHECK(done[i] == all[i].size(), "{} waits",
                 to_text(all[i][done[i]]));
}

RunPlan plan_of_turns(const std::vector<Traits>& boundaries) {
  return find_row(schedule_rows(), "turns", "order").make(boundaries, {});
}

}  // namespace sluice::seats_under_test
