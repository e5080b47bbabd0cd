#include "experiments/report/study/work.h"

namespace sluice::report {

std::optional<double> flops_in(const TurnWork& work, std::int64_t turns) {
  return work.flops * static_cast<double>(turns);
}

std::optional<double> sequential_flops_in(const TurnWork& work,
                                          std::int64_t turns) {
  if (!work.sequential_flops) return std::nullopt;
  return *work.sequential_flops * static_cast<double>(turns);
}

std::optional<double> bytes_sent_in(const TurnWork& work, std::int64_t turns) {
  const double exchanged = work.replica_bytes ? work.replica_bytes(turns) : 0.0;
  return work.boundary_bytes * static_cast<double>(turns) + exchanged;
}

}  // namespace sluice::report
