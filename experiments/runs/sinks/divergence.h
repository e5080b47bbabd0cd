#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "lib/base/error.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// A loss or a weight of the run is NaN or infinite. A restart would not help:
/// a run in lockstep would compute the same bits again.
class DivergenceError : public Error {
 public:
  using Error::Error;
};

/// Turns in which a loss or weight may have become what it is, and whether an
/// evaluation found it.
struct SuspectTurns {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool evaluated = false;
};
/// The first sample of these turns whose input or target isn't finite ("sample
/// 17 of a.npy"); empty: none.
using FindBadSample = std::function<std::string(const SuspectTurns& turns)>;

/// The exit status of a run that diverged.
inline constexpr int kDivergedStatus = 5;

/// Ends a run with on_nan = "stop" at the first loss that is NaN or infinite,
/// of a block, of a synthesizer or input model, or of an evaluation, or at the
/// first checkpoint that isn't finite. The losses are those of the metrics, so
/// what log_every leaves out is not seen before a checkpoint.
class DivergenceGuard final : public Sink {
 public:
  /// Called with each earlier record of a run that is continued.
  void recall(const Record& record);
  /// Throws UserError at a loss that is NaN or infinite. When blocks run in
  /// parallel, records of earlier turns may still follow.
  void write(const Record& record) override;

  /// Called with what isn't finite in the turn's checkpoint. Throws UserError.
  void checkpoint_not_finite(std::int64_t turn, const std::string& what);

  /// The first loss that was NaN or infinite, by turn and block, or else the
  /// checkpoint; nothing when all were finite. `checkpoints` is the run's
  /// folder of checkpoints.
  std::optional<records::Divergence> found(
      const std::string& checkpoints,
      const FindBadSample& find_bad_sample = {}) const;

 private:
  struct Loss {
    std::int64_t turn = 0;
    int block = 0;  ///< 0: an evaluation of all
    std::int64_t batch = 0;
    std::string name = {};
    double value = 0;
  };
  struct Weights {
    std::int64_t turn = 0;
    std::string what = {};
  };
  static std::optional<Loss> loss_in(const Record& record);
  static std::string text_of(const Loss& loss);
  std::int64_t sound_turns(const Loss& loss) const;

  /// The last batch with a finite loss, by block; only blocks that have losses.
  std::map<int, std::int64_t> finite_;
  std::optional<Loss> first_;
  std::optional<Weights> weights_;
};

}  // namespace sluice
