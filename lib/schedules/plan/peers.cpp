#include "lib/schedules/plan/peers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "lib/base/error.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

/// The number that is `steps` places from another on a ring of 1 to members.
int along(int members, int from, int steps) {
  return (from - 1 + steps % members + members) % members + 1;
}

/// Rows of the squarest grid; 1 of a prime number.
int rows_of(int members) {
  int rows = static_cast<int>(std::sqrt(static_cast<double>(members)));
  while (members % rows != 0) --rows;
  return rows;
}

void add_on_torus(int members, int member, std::set<int>& found) {
  const int columns = members / rows_of(members);
  const int column = (member - 1) % columns + 1;
  const int row_begin = member - column;
  for (const int step : {1, -1}) {
    found.insert(row_begin + along(columns, column, step));
    found.insert(along(members, member, step * columns));
  }
}

/// Neighbours of a replica in a graph without directions.
std::vector<int> neighbours_of(PeerShape shape, int members, int member) {
  std::set<int> found;
  if (shape == PeerShape::torus) add_on_torus(members, member, found);
  const int last_step = shape == PeerShape::ring ? 1 : members - 1;
  if (shape != PeerShape::torus)
    for (int step = 1; step <= last_step;
         step = shape == PeerShape::exponential ? 2 * step : step + 1) {
      found.insert(along(members, member, step));
      found.insert(along(members, member, -step));
    }
  found.erase(member);
  return {found.begin(), found.end()};
}

KeyedRandom drawn_for(const PeerGraph& graph, std::string_view what,
                      std::int64_t exchange, int member = 0) {
  return KeyedRandom(random_key({graph.seed, key_part(what),
                                 static_cast<std::uint64_t>(exchange),
                                 static_cast<std::uint64_t>(member)}));
}

/// Fisher and Yates, whatever the standard library.
void shuffle(std::vector<int>& list, KeyedRandom random) {
  for (std::size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[random.below(i)]);
}

/// Side of each replica, index r-1, so that all its neighbours are on the other
/// one of two; nothing where there are no such sides.
std::optional<std::vector<int>> sides_of(PeerShape shape, int members) {
  std::vector<int> sides(static_cast<std::size_t>(members), -1);
  const auto side = [&](int member) -> int& {
    return sides[static_cast<std::size_t>(member) - 1];
  };
  std::vector<int> next = {1};
  side(1) = 0;
  while (!next.empty()) {
    const int member = next.back();
    next.pop_back();
    for (const int other : neighbours_of(shape, members, member)) {
      if (side(other) == side(member)) return std::nullopt;
      if (side(other) != -1) continue;
      side(other) = 1 - side(member);
      next.push_back(other);
    }
  }
  return sides;
}

/// Partner of each replica, index r-1, where any two may meet: neighbours in an
/// order that is drawn. 0: none, of the last of an odd number.
std::vector<int> partners_of_all(const PeerGraph& graph, int members,
                                 std::int64_t exchange) {
  std::vector<int> order(static_cast<std::size_t>(members));
  std::iota(order.begin(), order.end(), 1);
  shuffle(order, drawn_for(graph, "replicas.pairs", exchange));
  std::vector<int> partners(order.size(), 0);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    partners[static_cast<std::size_t>(order[i]) - 1] = order[i + 1];
    partners[static_cast<std::size_t>(order[i + 1]) - 1] = order[i];
  }
  return partners;
}

/// Partner of each replica, index r-1; 0: none. The replicas of one side choose
/// in an order that is drawn, each among its neighbours that are still free.
std::vector<int> partners_of(const PeerGraph& graph, int members,
                             std::int64_t exchange) {
  if (graph.shape == PeerShape::complete)
    return partners_of_all(graph, members, exchange);
  const auto sides = sides_of(graph.shape, members);
  SLUICE_CHECK(sides, "pairs of a graph that is not bipartite");
  std::vector<int> asking;
  for (int member = 1; member <= members; ++member)
    if ((*sides)[static_cast<std::size_t>(member) - 1] == 0)
      asking.push_back(member);
  shuffle(asking, drawn_for(graph, "replicas.pairs", exchange));
  std::vector<int> partners(static_cast<std::size_t>(members), 0);
  for (const int member : asking) {
    std::vector<int> left = neighbours_of(graph.shape, members, member);
    std::erase_if(left, [&](int other) {
      return partners[static_cast<std::size_t>(other) - 1] != 0;
    });
    if (left.empty()) continue;
    KeyedRandom random = drawn_for(graph, "replicas.pairs", exchange, member);
    const int other = left[random.below(left.size())];
    partners[static_cast<std::size_t>(member) - 1] = other;
    partners[static_cast<std::size_t>(other) - 1] = member;
  }
  return partners;
}

/// Number of hops after which what one replica has has come to all.
std::int64_t hops_of(int members) {
  std::int64_t hops = 0;
  while ((std::int64_t{1} << hops) < members) ++hops;
  return hops;
}

/// Dissemination: the replica at place p sends to p + 2^s.
Peers hop_of(const PeerGraph& graph, int members, int member,
             std::int64_t exchange) {
  const std::int64_t hops = hops_of(members);
  std::vector<int> at_place(static_cast<std::size_t>(members));
  std::iota(at_place.begin(), at_place.end(), 1);
  if (graph.rotates && exchange >= hops)
    shuffle(at_place, drawn_for(graph, "replicas.places", exchange / hops));
  const auto found = std::find(at_place.begin(), at_place.end(), member);
  const int place = static_cast<int>(found - at_place.begin()) + 1;
  const int step = 1 << (exchange % hops);
  const auto member_at = [&](int where) {
    return at_place[static_cast<std::size_t>(where) - 1];
  };
  return {{member_at(along(members, place, step))},
          {member_at(along(members, place, -step))}};
}

int target_of(const PeerGraph& graph, int members, int member,
              std::int64_t exchange) {
  KeyedRandom random = drawn_for(graph, "replicas.target", exchange, member);
  const auto others = static_cast<std::uint64_t>(members) - 1;
  return along(members, member, 1 + static_cast<int>(random.below(others)));
}

Peers random_of(const PeerGraph& graph, int members, int member,
                std::int64_t exchange) {
  Peers peers{.to = {target_of(graph, members, member, exchange)}};
  for (int other = 1; other <= members; ++other)
    if (other != member && target_of(graph, members, other, exchange) == member)
      peers.from.push_back(other);
  return peers;
}

}  // namespace

std::string_view shape_name(PeerShape shape) {
  switch (shape) {
    case PeerShape::all:
      return "all";
    case PeerShape::ring:
      return "ring";
    case PeerShape::torus:
      return "torus";
    case PeerShape::complete:
      return "complete";
    case PeerShape::exponential:
      return "exponential";
    case PeerShape::hops:
      return "hops";
    case PeerShape::random:
      return "random";
  }
  throw InternalError("a shape without a name");
}

Peers peers_of(const PeerGraph& graph, int members, int member,
               std::int64_t exchange) {
  SLUICE_CHECK(!graph.is_all() && members > 1, "there are no peers");
  if (graph.shape == PeerShape::hops)
    return hop_of(graph, members, member, exchange);
  if (graph.shape == PeerShape::random)
    return random_of(graph, members, member, exchange);
  if (!graph.pairs) {
    const std::vector<int> all = neighbours_of(graph.shape, members, member);
    return {all, all};
  }
  const int partner = partners_of(
      graph, members, exchange)[static_cast<std::size_t>(member) - 1];
  if (partner == 0) return {};
  return {{partner}, {partner}};
}

int drawn_neighbour(const PeerGraph& graph, int members, int member,
                    std::int64_t exchange, const std::set<int>& without) {
  std::vector<int> all = neighbours_of(graph.shape, members, member);
  std::erase_if(all, [&](int other) { return without.contains(other); });
  if (all.empty()) return member;
  return all.at(drawn_for(graph, "replicas.neighbour", exchange, member)
                    .below(all.size()));
}

bool is_host(const PeerGraph& graph, int members, int member) {
  if (graph.shape != PeerShape::torus) return member % 2 == 0;
  const int columns = members / rows_of(members);
  return ((member - 1) / columns + (member - 1) % columns) % 2 == 1;
}

int host_of_visit(const PeerGraph& graph, int members, int member,
                  std::int64_t exchange) {
  if (is_host(graph, members, member)) return member;
  std::set<int> visitors;  // on other graphs no neighbour is one
  if (graph.shape == PeerShape::complete)
    for (int other = 1; other <= members; ++other)
      if (!is_host(graph, members, other)) visitors.insert(other);
  return drawn_neighbour(graph, members, member, exchange, visitors);
}

std::int64_t messages_of(const PeerGraph& graph, int members,
                         std::int64_t exchange) {
  std::int64_t messages = 0;
  for (int member = 1; member <= members; ++member)
    messages += std::ssize(peers_of(graph, members, member, exchange).to);
  return messages;
}

void check_graph(const PeerGraph& graph, int members) {
  if (graph.shape == PeerShape::torus && rows_of(members) == 1)
    throw UserError(
        "replicas.graph = 'torus': {} is a prime number, of which no grid has "
        "rows and columns: set graph = 'ring', or another replicas.count",
        members);
  if (graph.pairs && graph.shape != PeerShape::complete &&
      !sides_of(graph.shape, members))
    throw UserError(
        "replicas.pairs = true: the graph '{}' of {} replicas is not "
        "bipartite, so replicas that wait for each other could form a circle: "
        "set graph = 'ring' and an even replicas.count, or 'complete'",
        shape_name(graph.shape), members);
}

}  // namespace sluice
