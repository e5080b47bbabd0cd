#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

namespace sluice {

/// Graph of the replicas that exchange with each other.
enum class PeerShape : std::uint8_t {
  all,          ///< a sum over all of them: there are no peers
  ring,         ///< the one before and the one after
  torus,        ///< four, of a grid as square as their number allows
  complete,     ///< all others
  exponential,  ///< those 1, 2, 4, ... further on either side of the ring
  hops,         ///< to one of these on one side, another in each exchange
  random        ///< to one that is drawn in each exchange
};
std::string_view shape_name(PeerShape shape);

/// The graph of an exchange, the same for all replicas of a block.
struct PeerGraph {
  PeerShape shape = PeerShape::all;
  /// Only disjoint pairs of neighbours meet, others in each exchange: drawn by
  /// key. The graph must be bipartite, as of AD-PSGD (Lian et al. 2018,
  /// arXiv:1710.06952, section 3), where the one side asks and the other
  /// answers; or complete, of which the pairs are those of an order that is
  /// drawn, as of NoLoCo (arXiv:2506.10911).
  bool pairs = false;
  /// Whether replicas change places after all hops, drawn by key
  /// (Daily et al. 2018, arXiv:1803.05880).
  bool rotates = false;
  std::uint64_t seed = 0;

  bool is_all() const { return shape == PeerShape::all; }
  bool operator==(const PeerGraph&) const = default;
};

/// Replicas, from 1 and in ascending order, to which one sends and from which
/// it takes; itself left out.
struct Peers {
  std::vector<int> to = {};
  std::vector<int> from = {};

  bool operator==(const Peers&) const = default;
};

/// The peers of a replica in an exchange, a function of its arguments alone. A
/// replica is in another one's `to` exactly where that is in its `from`, and
/// all whom it takes from send to as many as it does itself: where each gives
/// itself and those an equal part of what it has, nothing is lost, and but for
/// `random` what a replica gets are equal parts too, of the sum 1.
Peers peers_of(const PeerGraph& graph, int members, int member,
               std::int64_t exchange);

/// The neighbour that a replica meets in an exchange of its own, of a graph
/// whose edges have no direction: drawn by key, whatever the others do, among
/// those that aren't `without`. Where none is left, the replica itself.
int drawn_neighbour(const PeerGraph& graph, int members, int member,
                    std::int64_t exchange, const std::set<int>& without = {});

/// Whether the replica is visited by neighbours, where those of the one side of
/// the graph visit those of the other: replica 1 visits. On a complete graph
/// every second replica is a host.
bool is_host(const PeerGraph& graph, int members, int member);

/// The host that a replica visits in an exchange of its own, drawn by key as
/// above among its neighbours; a host visits itself.
int host_of_visit(const PeerGraph& graph, int members, int member,
                  std::int64_t exchange);

/// Messages of all replicas together.
std::int64_t messages_of(const PeerGraph& graph, int members,
                         std::int64_t exchange);

/// Throws UserError, with the remedy, where so many replicas can't have that
/// graph.
void check_graph(const PeerGraph& graph, int members);

}  // namespace sluice
