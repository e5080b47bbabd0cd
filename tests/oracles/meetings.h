#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/tensors/tensors.h"

/// What replicas exchange, as the papers say it: plain loops over tensors, for
/// oracles. Labels are those of the specification (parallel).
namespace sluice::plain_replicas {

// Powers of two, whose products are exact: a step has the same bits whether it
// is computed with fused multiply-adds, as parts of ATen's are, or without.
inline constexpr double kRate = 0.0625;
inline constexpr double kMomentum = 0.5;

/// A replica of a block, and SGD with momentum on it.
struct Member {
  Tensors weights;
  Tensors velocities;

  explicit Member(const NamedTensors& of);

  void step(const Tensors& gradients, double rate = kRate);
};
using Members = std::vector<Member>;

/// What the replicas of a block do with their gradients: one update of each.
class Meeting {
 public:
  virtual ~Meeting() = default;
  /// Whether a replica's gradient counts by the samples of its batch.
  virtual bool counts_samples() const { return false; }
  /// Called before gradients are taken, and after: the members' weights are
  /// those that the gradients see.
  virtual void look_ahead(Members& /*members*/) {}
  virtual void look_back(Members& /*members*/) {}
  virtual void update(Members& members, const std::vector<Tensors>& gradients) {
    for (std::size_t r = 0; r < members.size(); ++r)
      members[r].step(gradients[r]);
  }
};

/// Made with the members as they begin.
using MakeMeeting =
    std::function<std::unique_ptr<Meeting>(const Members& first)>;

/// Replicas, from 0, whom replica r of R takes from in exchange n.
using Others = std::vector<int> (*)(int r, int replicas, std::int64_t n);
std::vector<int> both_beside(int r, int replicas, std::int64_t n);
/// Steps of 1, 2, 1, 2, ...: up to four replicas have heard of all then.
std::vector<int> one_behind(int r, int replicas, std::int64_t n);
/// The one with whom the run says that it has drawn a pair: the only thing that
/// is taken from there.
std::vector<int> drawn_pair(int r, int replicas, std::int64_t n);

/// Replicas that never exchange anything.
MakeMeeting alone();
/// A1 without backup workers.
MakeMeeting all_reduce();
/// A2, A18: all take the mean of the weights after every so many updates.
MakeMeeting average(std::int64_t every);
/// A19: where all go on is a step of PyTorch's own SGD from where they began,
/// by how far their mean is from there.
MakeMeeting outer_sgd(std::int64_t every);
/// H5: the mean of the weights of `overlap` updates ago, of which an outer SGD
/// with momentum makes the global ones; a replica keeps `mixing` of its own.
struct Streams {
  std::int64_t every = 1;
  std::int64_t overlap = 0;
  double mixing = 0;
};
MakeMeeting streaming(const Streams& streams);
/// H6: pairs that the run says that it has drawn, after every so many updates.
struct SlowWeights {
  std::int64_t every = 1;
  double rate = 0;
  double momentum = 0;
  double pull = 0;  ///< gamma
};
MakeMeeting paired(const SlowWeights& options);
/// H7: of what each has moved, and of what it has not sent, the largest
/// magnitudes of each chunk.
struct SparseSteps {
  std::int64_t every = 1;
  double ratio = 0;
  std::int64_t chunk = 0;
  double decay = 1;
  double rate = 1;
};
MakeMeeting sparse(const SparseSteps& options);

/// A4, synchronous: both sides move by what the weights and the centre were
/// before the update.
MakeMeeting elastic(std::int64_t every);
/// A8, A9, A13: each takes the mean of its own weights and those of some
/// others. Before the update, how far that is away is added after it.
MakeMeeting mixing(Others others, bool is_before);
/// A23: gradients at z = x / w, steps on x, and half of x and w to one other.
MakeMeeting push();
/// B: steps by its own gradient and those of both beside it, in the order of
/// the replicas.
MakeMeeting neighbours();

/// A4, asynchronous, round robin: e = alpha (x - c); x -= e; c += e, where the
/// gradient is that at the x of before.
MakeMeeting one_by_one();
/// A14, round robin: the server adds how far each replica has moved in so many
/// updates, divided by these.
MakeMeeting movements(std::int64_t every);
/// H3, round robin: a push moves the server's weights by a part of itself, and
/// every so many of them Nesterov's momentum by their mean.
MakeMeeting delayed_nesterov(std::int64_t every, double rate, double momentum,
                             std::int64_t pushes);
/// H8, round robin: v = m v - rate g(x + m v); x += v, and the pull of A4.
MakeMeeting looking_ahead();
/// What a server makes of a gradient that is `late` updates old.
enum class Stale { as_it_is, compensated, slower };

/// A5, A10, A11, round robin: the server steps by the gradient of one replica
/// after the other, and each goes on with what it finds after its own.
MakeMeeting server(Stale stale);

}  // namespace sluice::plain_replicas
