// Peers that replicas exchange with: invariants of the graphs of gossip, and
// what a schedule makes of them.
#include "lib/schedules/plan/peers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/by_block.h"
#include "lib/base/error.h"
#include "lib/schedules/orders/rows.h"
#include "lib/schedules/plan/exchange_table.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/schedules/simulation/capacities.h"
#include "lib/schedules/simulation/simulation.h"

namespace sluice::peers_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr PeerGraph kRing{.shape = PeerShape::ring};
constexpr PeerGraph kPairs{.shape = PeerShape::ring, .pairs = true, .seed = 7};
constexpr PeerGraph kHops{.shape = PeerShape::hops};
constexpr PeerGraph kRandom{.shape = PeerShape::random, .seed = 7};

std::vector<PeerGraph> all_graphs() {
  return {kRing,
          {.shape = PeerShape::torus},
          {.shape = PeerShape::complete},
          {.shape = PeerShape::exponential},
          kPairs,
          {.shape = PeerShape::complete, .pairs = true, .seed = 7},
          kHops,
          {.shape = PeerShape::hops, .rotates = true, .seed = 7},
          kRandom};
}

bool is_possible(const PeerGraph& graph, int members) {
  try {
    check_graph(graph, members);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

/// Row i, column j: what part of what j has i gets.
using Matrix = std::vector<std::vector<double>>;

Matrix mixing_of(const PeerGraph& graph, int members, std::int64_t exchange) {
  const auto count = static_cast<std::size_t>(members);
  Matrix matrix(count, std::vector<double>(count, 0));
  for (int member = 1; member <= members; ++member) {
    const Peers peers = peers_of(graph, members, member, exchange);
    const double part = 1.0 / (1.0 + static_cast<double>(peers.to.size()));
    by_block(by_block(matrix, member), member) = part;
    for (const int to : peers.to) by_block(by_block(matrix, to), member) = part;
  }
  return matrix;
}

/// Calls with every graph that so many replicas can have, and some exchanges.
template <class Check>
void for_all(const Check& check) {
  int checked = 0;
  for (const int members : {2, 3, 4, 6, 7, 8, 12, 16})
    for (const PeerGraph& graph : all_graphs()) {
      if (!is_possible(graph, members)) continue;
      for (const std::int64_t exchange : {0, 1, 2, 5, 17, 1000}) {
        SCOPED_TRACE(std::string(shape_name(graph.shape)) + " of " +
                     std::to_string(members));
        check(graph, members, exchange);
        ++checked;
      }
    }
  EXPECT_GT(checked, 300);
}

TEST(Peers, TakeFromThoseThatSendToThem) {
  for_all([](const PeerGraph& graph, int members, std::int64_t exchange) {
    std::set<std::pair<int, int>> sent;
    std::set<std::pair<int, int>> taken;
    for (int member = 1; member <= members; ++member) {
      const Peers peers = peers_of(graph, members, member, exchange);
      for (const int to : peers.to) sent.insert({member, to});
      for (const int from : peers.from) taken.insert({from, member});
      EXPECT_TRUE(std::is_sorted(peers.from.begin(), peers.from.end()));
      EXPECT_FALSE(sent.contains({member, member}));
    }
    EXPECT_EQ(sent, taken);
    EXPECT_EQ(std::ssize(sent), messages_of(graph, members, exchange));
  });
}

TEST(Peers, LoseNothingAndGetEqualPartsOfTheSumOne) {
  for_all([](const PeerGraph& graph, int members, std::int64_t exchange) {
    const Matrix matrix = mixing_of(graph, members, exchange);
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      double row = 0;
      double column = 0;
      for (std::size_t j = 0; j < matrix.size(); ++j) {
        row += matrix[i][j];
        column += matrix[j][i];
      }
      EXPECT_NEAR(column, 1, 1e-12);
      if (graph.shape != PeerShape::random) {
        EXPECT_NEAR(row, 1, 1e-12);
      }
    }
  });
}

TEST(Peers, SendToAsManyAsThoseWhomTheyTakeFrom) {
  for_all([](const PeerGraph& graph, int members, std::int64_t exchange) {
    for (int member = 1; member <= members; ++member) {
      const Peers mine = peers_of(graph, members, member, exchange);
      for (const int from : mine.from)
        EXPECT_EQ(peers_of(graph, members, from, exchange).to.size(),
                  mine.to.size());
    }
  });
}

TEST(Peers, PeersOfGraphsAreTheirNeighbours) {
  EXPECT_THAT(peers_of(kRing, 5, 1, 0).to, ElementsAre(2, 5));
  EXPECT_THAT(peers_of(kRing, 2, 1, 9).to, ElementsAre(2));
  const PeerGraph torus{.shape = PeerShape::torus};
  // A torus of 3 rows and 4 columns; in 2 x 2 the two ways round are one.
  EXPECT_THAT(peers_of(torus, 12, 1, 0).to, ElementsAre(2, 4, 5, 9));
  EXPECT_THAT(peers_of(torus, 4, 1, 0).to, ElementsAre(2, 3));
  EXPECT_THAT(peers_of({.shape = PeerShape::complete}, 4, 3, 0).from,
              ElementsAre(1, 2, 4));
  EXPECT_THAT(peers_of({.shape = PeerShape::exponential}, 9, 1, 0).to,
              ElementsAre(2, 3, 5, 6, 8, 9));
  EXPECT_THAT(peers_of(kHops, 8, 1, 2).to, ElementsAre(5));
  EXPECT_THAT(peers_of(kHops, 8, 1, 4).from, ElementsAre(7));
}

// B: each gradient is applied deg + 1 times, once in each place.
TEST(Peers, HaveEachGradientAppliedByItsReplicaAndItsNeighbours) {
  struct Case {
    PeerShape shape;
    int members;
    int times;
  };
  for (const Case& of :
       {Case{PeerShape::ring, 2, 2}, Case{PeerShape::ring, 3, 3},
        Case{PeerShape::ring, 8, 3}, Case{PeerShape::torus, 4, 3},
        Case{PeerShape::torus, 12, 5}, Case{PeerShape::torus, 16, 5}}) {
    std::multiset<std::pair<int, int>> applied;  // whose gradient, by whom
    for (int member = 1; member <= of.members; ++member) {
      applied.insert({member, member});
      for (const int from :
           peers_of({.shape = of.shape}, of.members, member, 7).from)
        applied.insert({from, member});
    }
    for (int whose = 1; whose <= of.members; ++whose) {
      int times = 0;
      for (int by = 1; by <= of.members; ++by) {
        const auto count = static_cast<int>(applied.count({whose, by}));
        EXPECT_LE(count, 1);
        times += count;
      }
      EXPECT_EQ(times, of.times) << of.members << " replicas";
    }
  }
}

TEST(Peers, PeersOfPairsAreNeighboursAndOthersInAnotherExchange) {
  std::set<std::pair<int, int>> met;
  for (std::int64_t exchange = 0; exchange < 40; ++exchange)
    for (int member = 1; member <= 6; ++member) {
      const Peers peers = peers_of(kPairs, 6, member, exchange);
      EXPECT_EQ(peers.to, peers.from);
      ASSERT_LE(peers.to.size(), 1U);
      if (peers.to.empty()) continue;
      EXPECT_THAT(peers_of(kRing, 6, member, 0).to,
                  testing::Contains(peers.to[0]));
      met.insert({member, peers.to[0]});
    }
  EXPECT_EQ(met.size(), 12U) << "all edges, both ways";
}

using HostsByVisitor = std::map<int, std::set<int>>;

/// The hosts that each replica visits in many exchanges.
HostsByVisitor visited_on(PeerShape shape, int members) {
  const PeerGraph graph{.shape = shape, .pairs = true, .seed = 7};
  HostsByVisitor visited;
  for (std::int64_t exchange = 0; exchange < 60; ++exchange)
    for (int member = 1; member <= members; ++member)
      visited[member].insert(host_of_visit(graph, members, member, exchange));
  return visited;
}

TEST(Peers, ReplicasVisitNeighboursOnTheOtherSideWhichVisitThemselves) {
  EXPECT_EQ(visited_on(PeerShape::ring, 2),
            (HostsByVisitor{{1, {2}}, {2, {2}}}));
  EXPECT_EQ(visited_on(PeerShape::ring, 4),
            (HostsByVisitor{{1, {2, 4}}, {2, {2}}, {3, {2, 4}}, {4, {4}}}));
  EXPECT_EQ(visited_on(PeerShape::ring, 6), (HostsByVisitor{{1, {2, 6}},
                                                            {2, {2}},
                                                            {3, {2, 4}},
                                                            {4, {4}},
                                                            {5, {4, 6}},
                                                            {6, {6}}}));
  EXPECT_EQ(visited_on(PeerShape::complete, 5),
            (HostsByVisitor{
                {1, {2, 4}}, {2, {2}}, {3, {2, 4}}, {4, {4}}, {5, {2, 4}}}));
  // Rows 1 2 3 4 and 5 6 7 8: a chessboard.
  EXPECT_EQ(visited_on(PeerShape::torus, 8)[1], (std::set<int>{2, 4, 5}));
}

TEST(Peers, AreDrawnByTheSeed) {
  PeerGraph other = kRandom;
  other.seed = 8;
  int different = 0;
  for (std::int64_t exchange = 0; exchange < 20; ++exchange) {
    EXPECT_EQ(peers_of(kRandom, 8, 3, exchange),
              peers_of(kRandom, 8, 3, exchange));
    different += static_cast<int>(peers_of(kRandom, 8, 3, exchange).to !=
                                  peers_of(other, 8, 3, exchange).to);
  }
  EXPECT_GT(different, 10);
}

TEST(Peers, PeersOfHopsThatRotateMeetOthersThanThoseWithout) {
  PeerGraph rotating = kHops;
  rotating.rotates = true;
  std::set<int> met;
  for (std::int64_t exchange = 0; exchange < 60; ++exchange)
    met.insert(peers_of(rotating, 8, 1, exchange).to.at(0));
  EXPECT_EQ(met.size(), 7U);
  EXPECT_EQ(peers_of(rotating, 8, 1, 2), peers_of(kHops, 8, 1, 2))
      << "before the first rotation";
}

/// Numbers of the replicas after exchanges from `first` on.
std::vector<double> mixed(std::vector<double> numbers, const PeerGraph& graph,
                          std::int64_t first, std::int64_t exchanges) {
  const auto members = static_cast<int>(numbers.size());
  for (std::int64_t e = first; e < first + exchanges; ++e) {
    const Matrix matrix = mixing_of(graph, members, e);
    std::vector<double> next(numbers.size(), 0);
    for (std::size_t i = 0; i < next.size(); ++i)
      for (std::size_t j = 0; j < next.size(); ++j)
        next[i] += matrix[i][j] * numbers[j];
    numbers = next;
  }
  return numbers;
}

double spread_of(const std::vector<double>& numbers) {
  const auto [least, most] =
      std::minmax_element(numbers.begin(), numbers.end());
  return *most - *least;
}

TEST(Peers, PeersOfHopsHaveTheExactMeanAfterLogarithmicallyMany) {
  for (const bool rotates : {false, true}) {
    const PeerGraph graph{
        .shape = PeerShape::hops, .rotates = rotates, .seed = 3};
    const std::vector<double> numbers = {8, 1, 5, 0, 2, 7, 3, 6};
    for (const std::int64_t first : {0, 3, 30}) {
      for (const double each : mixed(numbers, graph, first, 3))
        EXPECT_DOUBLE_EQ(each, 4);
      EXPECT_GT(spread_of(mixed(numbers, graph, first, 2)), 0.1);
    }
  }
}

// For a ring of N with weights of a third, the second eigenvalue is
// (1 + 2 cos(2 pi / N)) / 3.
TEST(Peers, PeersOfARingContractByItsSpectralGap) {
  constexpr int kMembers = 8;
  std::vector<double> wave;
  for (int i = 0; i < kMembers; ++i)
    wave.push_back(std::cos(2 * std::numbers::pi * i / kMembers));
  const double eigenvalue =
      (1 + 2 * std::cos(2 * std::numbers::pi / kMembers)) / 3;
  const std::vector<double> after = mixed(wave, kRing, 0, 5);
  for (std::size_t i = 0; i < wave.size(); ++i)
    EXPECT_NEAR(after[i], std::pow(eigenvalue, 5) * wave[i], 1e-12);
}

TEST(Peers, AreRefusedWhereThereIsNoSuchGraph) {
  EXPECT_THAT([] { check_graph({.shape = PeerShape::torus}, 5); },
              ThrowsMessage<UserError>(HasSubstr("prime")));
  EXPECT_THAT([] { check_graph(kPairs, 5); },
              ThrowsMessage<UserError>(HasSubstr("bipartite")));
  EXPECT_THAT(
      [] { check_graph({.shape = PeerShape::exponential, .pairs = true}, 5); },
      ThrowsMessage<UserError>(HasSubstr("bipartite")));
  EXPECT_NO_THROW(
      check_graph({.shape = PeerShape::complete, .pairs = true}, 5));
  EXPECT_NO_THROW(check_graph(kPairs, 6));
  EXPECT_NO_THROW(check_graph({.shape = PeerShape::torus, .pairs = true}, 4));
}

TEST(Peers, PairsOfTheCompleteGraphAreOfAnyTwo) {
  const PeerGraph graph{.shape = PeerShape::complete, .pairs = true, .seed = 7};
  std::set<int> met;
  int alone = 0;
  for (std::int64_t exchange = 0; exchange < 200; ++exchange) {
    const Peers peers = peers_of(graph, 5, 1, exchange);
    if (peers.to.empty())
      ++alone;
    else
      met.insert(peers.to.begin(), peers.to.end());
  }
  EXPECT_THAT(met, ElementsAre(2, 3, 4, 5));
  EXPECT_GT(alone, 20);
  EXPECT_LT(alone, 60);
}

RunPlan ring_plan(int replicas) {
  const ReplicaExchange exchange{.what = ExchangedTensors::weights,
                                 .graph = kRing};
  return with_replicas(find_row(schedule_rows(), "turns", "order")
                           .make(std::vector<Traits>(), ScheduleOptions()),
                       replicas, exchange);
}

TEST(PeersInSchedules, AreNumberedByTheirTurns) {
  ReplicaExchange exchange{.what = ExchangedTensors::weights, .every = 2};
  exchange.graph = kHops;
  const RunPlan plan =
      with_replicas(find_row(schedule_rows(), "turns", "order")
                        .make(std::vector<Traits>(), ScheduleOptions()),
                    8, exchange);
  const BlockPlan& first = plan.blocks.front();
  EXPECT_THAT(peers_of(first, {.op = Op::exchange, .batch = 1}).to,
              ElementsAre(2));
  EXPECT_THAT(peers_of(first, {.op = Op::exchange, .batch = 3}).to,
              ElementsAre(3));
  EXPECT_THAT(peers_of(first, {.op = Op::exchange, .batch = 5}).to,
              ElementsAre(5));
  EXPECT_THAT(peers_of(first, {.op = Op::exchange, .batch = 7}).to,
              ElementsAre(2));
}

/// When the replica has settled its first exchange, where `slow` takes 10 s for
/// a forward and all others 1 s.
double settled_at(int replica, int slow) {
  constexpr int kReplicas = 8;
  const RunPlan plan = ring_plan(kReplicas);
  Costs costs;
  for (int each = 1; each <= kReplicas; ++each)
    costs.blocks.push_back(
        {.seconds = {{Op::forward, each == slow ? 10.0 : 1.0}}});
  costs.exchange_link = {.latency = 0.25, .bandwidth = 2};
  costs.exchange_bytes.assign(kReplicas, 3);
  for (const TimedAction& timed :
       simulate(plan, costs, capacities_of(plan, 0), Grant{.end_turn = 1}))
    if (timed.seat == replica && timed.action.op == Op::settle)
      return timed.end;
  throw InternalError("nothing was settled");
}

TEST(PeersInSchedules, WaitForEachOtherAndForNobodyElse) {
  const double alone = settled_at(5, /*slow=*/1);
  EXPECT_NEAR(alone, 1 + 2 * (0.25 + 3.0 / 2), 1e-12);
  EXPECT_NEAR(settled_at(2, /*slow=*/1), alone + 9, 1e-12);
  EXPECT_NEAR(settled_at(8, /*slow=*/1), alone + 9, 1e-12);
}

/// How far apart replicas are, beside what they were, after updates in which
/// each steps by the gradients of w^2 / 2 of itself and its neighbours.
double further_apart(const PeerGraph& graph, int members, double rate,
                     int updates) {
  std::vector<double> weights;
  for (int member = 1; member <= members; ++member)
    weights.push_back(1 + 0.01 * std::cos(member * member));
  const auto apart = [&] {
    const auto [least, most] =
        std::minmax_element(weights.begin(), weights.end());
    return *most - *least;
  };
  const double before = apart();
  for (int update = 0; update < updates; ++update) {
    const std::vector<double> old = weights;
    for (int member = 1; member <= members; ++member) {
      double sum = by_block(old, member);
      for (const int other : peers_of(graph, members, member, update).from)
        sum += by_block(old, other);
      by_block(weights, member) -= rate * sum;
    }
  }
  return apart() / before;
}

// parallel.md, B: X - lr G (I + Adj) contracts no difference.
TEST(Neighbours, OnARingOfThreeStayTogetherAndOfFourRunApartAtAnyRate) {
  for (const double rate : {0.3, 0.03, 0.003}) {
    const int updates = static_cast<int>(20 / rate);
    for (const int members : {2, 3})
      EXPECT_LE(further_apart(kRing, members, rate, updates), 1 + 1e-9)
          << members << ", " << rate;
    for (const int members : {4, 5, 6, 7, 8, 16})
      EXPECT_GT(further_apart(kRing, members, rate, updates), 1e3)
          << members << ", " << rate;
    for (const int members : {4, 6, 9, 16})
      EXPECT_GT(further_apart({.shape = PeerShape::torus}, members, rate / 2,
                              2 * updates),
                1e3)
          << members << ", " << rate;
  }
}

}  // namespace sluice::peers_test
