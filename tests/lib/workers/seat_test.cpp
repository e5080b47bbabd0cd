// What a seat does for each op, with neighbours that are seats too: no config,
// no engine.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/base/messages/memory_channel.h"
#include "lib/metrics/records.h"
#include "tests/lib/workers/seats_under_test.h"

namespace sluice::seat_test {

using namespace seats_under_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const RunPlan& two_blocks() {
  static const RunPlan plan = plan_of_turns({{}});
  return plan;
}

TEST(Seat, ForwardSendsTheOutputUp) {
  SeatChain chain({2, 3}, two_blocks());
  EXPECT_FALSE(chain.seat(2).ports().next_from_below());
  chain.execute(1, "F1");
  const auto sent = chain.seat(2).ports().next_from_below();
  EXPECT_EQ(sent, (MessageHead{MessageKind::activation, 1}));
  EXPECT_EQ(chain.seat(1).flights(), 1U);
}

TEST(Seat, BackwardTakesTheGradientOfTheWeightAndSendsOneDown) {
  SeatChain chain({2, 3}, two_blocks());
  chain.execute(1, "F0");
  chain.execute(2, "F0 B0");
  EXPECT_EQ(chain.gradient(2), 6 * 2) << "gradient of the loss times the input";
  chain.execute(1, "B0");
  EXPECT_EQ(chain.gradient(1), 6 * 3 * 1);
  EXPECT_EQ(chain.seat(1).flights(), 0U);
}

TEST(Seat, UpdateStepsByTheGradient) {
  SeatChain chain({2, 3}, two_blocks());
  chain.execute(1, "F0");
  chain.execute(2, "F0 B0 U0");
  EXPECT_FLOAT_EQ(static_cast<float>(chain.weight(2)), 3 - kRate * 12);
  EXPECT_EQ(chain.seat(2).weight_version(), 1);
}

TEST(Seat, HalvesOfABackwardGiveTheGradientsOfAWholeOne) {
  SeatChain chain({2, 3}, two_blocks());
  chain.execute(1, "F0");
  chain.execute(2, "F0 D0");
  EXPECT_TRUE(chain.seat(2).gradients().empty());
  chain.execute(1, "B0");
  EXPECT_EQ(chain.gradient(1), 18) << "it came down with the first half";
  chain.execute(2, "W0");
  EXPECT_EQ(chain.gradient(2), 12);
}

/// Blocks whose losses reach one block further down.
SeatChain within_reach() {
  const Traits reaching{.own = true, .reach = {1}};
  return {{2, 3, 1},
          plan_of_turns({reaching, reaching}),
          [=](int number, SeatSettings&, SeatParts& parts) {
            if (number < 3)
              parts.lowers = {std::make_shared<PlainLower>(reaching)};
          }};
}

TEST(Seat, FirstVisitWaitsForNoBlockAbove) {
  SeatChain chain = within_reach();
  chain.execute(1, "F0");
  chain.execute(2, "F0 B0");
  chain.execute(1, "B0");
  EXPECT_EQ(chain.gradient(1), 2 + 6 * 3) << "block 3 has done nothing";
}

TEST(Seat, VisitsApplyThePartsOfABatchTogether) {
  SeatChain chain = within_reach();
  chain.execute(1, "F0");
  chain.execute(2, "F0 B0");
  EXPECT_TRUE(chain.seat(2).gradients().empty());
  chain.execute(3, "F0 B0");
  chain.execute(2, "B0.1");
  EXPECT_EQ(chain.gradient(2), (6 + 6) * 2);
}

/// An end whose variable moves along the gradient from above.
class MovingLower final : public PlainLower {
 public:
  using PlainLower::PlainLower;
  Signal signal(const BatchContext& context) override {
    Signal signal = PlainLower::signal(context);
    if (!context.from_above.empty())
      signal.published = {context.features[0].detach() -
                          0.1 * context.from_above[0]};
    return signal;
  }
};

TEST(Seat, SweepForwardsWhatTheVariableBelowHasMovedTo) {
  Traits moving;
  moving.lower = {.publishes = true, .sweeps = {.steps = 2}};
  SeatChain chain({2, 3}, plan_of_turns({moving}),
                  [=](int number, SeatSettings&, SeatParts& parts) {
                    if (number == 1)
                      parts.lowers = {std::make_shared<MovingLower>(moving)};
                  });
  chain.run({.end_turn = 1}, {1, 2});
  // From 2 to 2 - 0.1 * 18 = 0.2, of which block 2 makes 0.6.
  EXPECT_NEAR(chain.weight(2), 3 - kRate * 0.6 * 0.2, 1e-6);
}

TEST(Seat, LowerEndLearnsFromTheGradientThatItsBlockDoesNotWaitFor) {
  const Traits cut{.cut = true, .own = true, .lower = {.learns = true}};
  const auto lower = std::make_shared<PlainLower>(cut);
  SeatChain chain({2, 3}, plan_of_turns({cut}),
                  [&](int number, SeatSettings&, SeatParts& parts) {
                    if (number == 1) parts.lowers = {lower};
                  });
  chain.execute(1, "F0 B0");
  EXPECT_EQ(chain.gradient(1), 2) << "of its own loss alone";
  chain.execute(2, "F0 B0");
  chain.execute(1, "L0");
  EXPECT_EQ(SeatChain::only(lower->learned_from), 18);
}

/// An upper end that makes the block's input of the data.
class DataUpper final : public Upper {
 public:
  Payload inputs(const InputContext& context,
                 const std::function<Payload()>& /*next*/) override {
    return context.data();
  }
  Lesson learn(const InputContext& /*context*/,
               const Payload& from_below) override {
    learned_from = from_below.features;
    return {};
  }

  Tensors learned_from = {};
};

TEST(Seat, UpperEndLearnsFromTheActivationThatItsBlockDoesNotWaitFor) {
  const Traits unlocked{.cut = true,
                        .own = true,
                        .lower = {.learns = true},
                        .upper = UpperEnd::from_data};
  const auto upper = std::make_shared<DataUpper>();
  SeatChain chain({2, 3}, plan_of_turns({unlocked}),
                  [&](int number, SeatSettings&, SeatParts& parts) {
                    if (number == 2) parts.uppers = {upper};
                  });
  chain.execute(2, "F0 B0");
  EXPECT_EQ(chain.gradient(2), 3) << "of the data";
  chain.execute(1, "F0");
  chain.execute(2, "I0");
  EXPECT_EQ(SeatChain::only(upper->learned_from), 2);
}

TEST(Seat, EvaluationEndsWithARecordOfTheLastBlock) {
  const auto sink = std::make_shared<KeptRecords>();
  SeatChain chain({2, 3}, two_blocks(),
                  [&](int, SeatSettings& settings, SeatParts& parts) {
                    settings.evaluation_batches = 2;
                    parts.sink = sink;
                  });
  chain.run({.evaluation_batches = 2}, {1, 2});
  std::vector<double> losses;
  for (const Record& record : sink->records)
    if (const auto evaluation = record.as<records::Evaluation>())
      losses.push_back(evaluation->loss);
  EXPECT_THAT(losses, ElementsAre((18 + 72) / 2.0)) << "6^2 / 2 and 12^2 / 2";
}

TEST(Seat, UpdateClipsByTheNormOfTheWholeModel) {
  SeatChain chain({2, 3}, make_run_plan({{}}, /*model_norm=*/true),
                  [](int, SeatSettings& settings, SeatParts&) {
                    settings.optimizer.clip_norm = 1;
                    settings.optimizer.clip_scope = ClipScope::model;
                  });
  chain.run({.end_turn = 1}, {1, 2});
  const double norm = std::sqrt(12.0 * 12 + 18 * 18);
  EXPECT_NEAR(chain.weight(1), 2 - kRate * 18 / norm, 1e-6);
  EXPECT_NEAR(chain.weight(2), 3 - kRate * 12 / norm, 1e-6);
}

TEST(Seat, OrderInWhichSeatsTakeTheirTurnsChangesNoWeight) {
  for (const Traits& boundary : {Traits{}, Traits{.delay = 1}}) {
    const RunPlan plan = plan_of_turns({boundary, boundary});
    std::vector<std::vector<double>> found;
    for (const std::vector<int>& order :
         {std::vector{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {2, 3, 1}}) {
      SeatChain chain({0.5, 0.6, 0.7}, plan);
      chain.run({.end_turn = 5}, order);
      found.push_back(chain.all_weights());
    }
    for (const auto& each : found) EXPECT_EQ(each, found[0]);
    EXPECT_NE(found[0], (std::vector<double>{0.5, 0.6, 0.7}));
  }
}

TEST(Seat, RestoredSeatsGoOnWithBatchesAndMessagesInFlight) {
  const RunPlan plan = plan_of_turns({{.delay = 1}, {.delay = 1}});
  const auto chain = [&] {
    return std::make_unique<SeatChain>(
        std::vector<double>{0.5, 0.6, 0.7}, plan,
        [](int, SeatSettings& settings, SeatParts&) {
          settings.checkpoint_folder = "unused";
        });
  };
  const Grant first{.end_turn = 3};
  const Grant second{.first_turn = 3, .end_turn = 6};
  const auto whole = chain();
  whole->start(first);
  whole->run(first, {1, 2, 3});
  const auto restored = chain();
  for (int k = 1; k <= 3; ++k) {
    NamedTensors weights;
    for (const auto& [name, tensor] : whole->seat(k).weights())
      weights.emplace_back(name, tensor.detach().clone());
    restored->seat(k).restore(weights, whole->seat(k).state(), "the test");
  }
  restored->start(second);
  whole->run(second, {1, 2, 3});
  restored->run(second, {1, 2, 3});
  EXPECT_EQ(restored->all_weights(), whole->all_weights());
}

TEST(Seat, RefusesAnActionWhoseTimeHasNotCome) {
  SeatChain chain({2, 3}, two_blocks());
  EXPECT_THAT([&] { chain.execute(1, "B0"); },
              ThrowsMessage<InternalError>(HasSubstr("B0) lacks")));
}

TEST(Seat, RefusesAGradientThatIsOlderThanItsSettingsAllow) {
  SeatChain chain({2, 3}, plan_of_turns({{.delay = 1}}),
                  [](int, SeatSettings& settings, SeatParts&) {
                    settings.options.max_staleness = 0;
                  });
  EXPECT_THAT(
      [&] {
        chain.run({.end_turn = 3}, {1, 2});
      },
      ThrowsMessage<UserError>(HasSubstr("block 1: in turn 1")));
}

TEST(Seat, RefusesAMessageOfAnotherBatch) {
  SeatChain chain({2, 3}, two_blocks());
  chain.execute(1, "F0");
  EXPECT_THROW(chain.execute(2, "F1"), InternalError);
}

TEST(Seat, ActionEndsWithAnErrorWhereTheNeighbourIsGone) {
  auto [below, above] = memory_link(1, 1, std::chrono::seconds(20));
  SeatChain chain(
      {2, 3}, two_blocks(),
      [&, link = &above](int number, SeatSettings&, SeatParts& parts) {
        if (number == 2) parts.below = std::move(*link);
      });
  below = {};
  EXPECT_THROW(chain.execute(2, "F0"), LinkError);
}

}  // namespace sluice::seat_test
