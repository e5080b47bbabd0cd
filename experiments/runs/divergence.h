#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/base/error.h"
#include "lib/metrics/records.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// A loss of the run is NaN or infinite. A restart would not help: a run in
/// lockstep would compute the same bits again.
class Diverged : public Error {
 public:
  using Error::Error;
};

/// The exit status of a run that diverged.
inline constexpr int kDivergedStatus = 5;

/// Ends a run with on_nan = "stop" at the first loss that is NaN or infinite,
/// of a block, of a synthesizer or input model, or of an evaluation. The losses
/// are those of the metrics, so what log_every leaves out is not seen.
class DivergenceGuard final : public Sink {
 public:
  /// Called with each earlier record of a run that is continued.
  void recall(const Record& record);
  /// Throws UserError at a loss that is NaN or infinite. When blocks run in
  /// parallel, records of earlier turns may still follow.
  void write(const Record& record) override;

  /// The first loss that was NaN or infinite, by turn and block; nothing when
  /// all were finite. `checkpoints` is the run's folder of checkpoints.
  std::optional<records::Diverged> found(const std::string& checkpoints) const;

 private:
  struct Loss {
    std::int64_t turn = 0;
    int block = 0;  ///< 0: an evaluation of all
    std::int64_t batch = 0;
    std::string name = {};
    double value = 0;
  };
  static std::optional<Loss> loss_in(const Record& record);
  std::string reason_of(const Loss& loss, const std::string& checkpoints) const;
  std::int64_t sound_turns(const Loss& loss) const;

  /// The last batch with a finite loss, by block; only blocks that have losses.
  std::map<int, std::int64_t> finite_;
  std::optional<Loss> first_;
};

}  // namespace sluice
