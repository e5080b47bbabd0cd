// Records of runs that lost replicas, simulated: what comes after a loss at a
// centre comes after all that the lost replica did.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/schedules/orders/free_running.h"
#include "lib/schedules/plan/action.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/recorded_loss.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::recorded_losses_test {

/// "2 B3": what replica 2 did, of replicas of one block that do that, in the
/// order of the simulation. The last: why they are stuck, if they are.
std::vector<std::string> order_of(const std::vector<std::string>& lines,
                                  const RecordedLoss& loss) {
  const ReplicaExchange exchange{
      .what = ExchangedTensors::gradients, .agrees = true, .served = true};
  const RunPlan plan =
      with_replicas(make_free_plan({}, 1, 3), static_cast<int>(lines.size()),
                    exchange, false, Dealing::arrival);
  Simulation simulation({plan}, {}, capacities_of(plan, 100));
  simulation.note_loss(loss);
  for (int seat = 1; seat <= static_cast<int>(lines.size()); ++seat)
    simulation.extend(
        seat, actions_from_text(by_block(lines, seat), ExchangeKind::push));
  std::vector<std::string> order;
  while (const auto timed = simulation.next())
    order.push_back(fmt::format("{} {}", timed->seat, to_text(timed->action)));
  if (!simulation.finished()) order.push_back("stuck: " + simulation.stuck());
  return order;
}

/// Whether all is done, and one before the other.
bool comes_before(const std::string& one, const std::string& other,
                  const std::vector<std::string>& order) {
  const auto place = std::find(order.begin(), order.end(), one);
  return !order.back().starts_with("stuck") && place != order.end() &&
         std::find(place, order.end(), other) != order.end();
}

TEST(RecordedLossInASimulation, HasItsPlaceBetweenPushes) {
  const std::vector<std::string> lines = {"F0 B0 X0 S0<1 U0 F2 B2 X2 S2<4 U2",
                                          "F1 B1 X1 S1<2 U1 F3 B3"};
  const RecordedLoss loss{.replica = 2,
                          .life = 0,
                          .place = 3,
                          .has_place = true,
                          .served = 2,
                          .rest = 4};
  EXPECT_TRUE(comes_before("2 B3", "1 S2<4", order_of(lines, loss)))
      << order_of(lines, loss).back();
  RecordedLoss without = loss;
  without.has_place = false;
  EXPECT_TRUE(order_of(lines, without).back().starts_with("stuck"))
      << "none has place 3";
}

TEST(RecordedLossInASimulation, ComesBeforeTheNextPushWithoutAPlace) {
  const std::vector<std::string> lines = {"F0 B0 X0 S0<1 U0 F2 B2 X2 S2<3 U2",
                                          "F1 B1 X1 S1<2 U1 F3 B3"};
  const RecordedLoss loss{
      .replica = 2, .life = 0, .place = 2, .served = 2, .rest = 4};
  EXPECT_TRUE(comes_before("2 B3", "1 S2<3", order_of(lines, loss)));
}

TEST(RecordedLossInASimulation, ComesBeforeTheRestAndAfterPushesBeforeIt) {
  const std::vector<std::string> lines = {"F0 B0 X0 S0<1 U0 X4.1 S4.1",
                                          "F1 B1 X1 S1<2 U1 F3 B3 X4.1",
                                          "F2 B2 X2 S2<3 U2 X4.1 S4.1"};
  const RecordedLoss loss{
      .replica = 2, .life = 0, .place = 3, .served = 2, .rest = 4};
  const std::vector<std::string> order = order_of(lines, loss);
  EXPECT_TRUE(comes_before("3 S2<3", "1 X4.1", order));
  EXPECT_TRUE(comes_before("2 X4.1", "1 X4.1", order))
      << "the rest isn't over before it has come";
}

TEST(RecordedLossInASimulation, IsOfOneOfThoseThatHadThePlace) {
  const std::vector<std::string> lines = {
      "F0 B0 X0 S0<1 U0 F2 B2 X2 S2<3 U2 X4.1 S4.1 F5 B5 X5 S5<5 U5",
      "F1 B1 X1 S1<2 U1 X4.8 S4.8<4 F6 B6 X6 S6<6 U6"};
  const RecordedLoss loss{
      .replica = 2, .life = 0, .place = 2, .served = 2, .rest = 4};
  const std::vector<std::string> order = order_of(lines, loss);
  EXPECT_TRUE(comes_before("2 U1", "1 S2<3", order));
  EXPECT_TRUE(comes_before("1 S2<3", "2 S6<6", order))
      << "the second is none of the loss";
}

}  // namespace sluice::recorded_losses_test
