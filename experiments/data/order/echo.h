#pragma once

#include <cstdint>

#include "lib/base/config.h"

namespace sluice {

/// Data echoing (Choi et al. 2019, arXiv:1907.05550): so many batches, an echo,
/// come several times, one pass after another, before those of the next echo. A
/// batch that comes again has the same samples with the same random changes.
struct Echo {
  std::int64_t batches = 1;  ///< of an echo
  std::int64_t times = 1;    ///< passes over it; 1: none comes again

  void describe(Fields& fields);

  bool is_on() const { return times > 1; }
  /// Turns of all passes over an echo.
  std::int64_t turns() const { return batches * times; }
  /// Number without echo of what comes as batch t.
  std::int64_t original(std::int64_t t) const {
    return is_on() ? t / turns() * batches + place(t) : t;
  }
  /// Place of batch t in its echo, from 0.
  std::int64_t place(std::int64_t t) const { return t % batches; }
};

/// The echo that a resolved config says; none where it has no data.
Echo echo_in(const ConfigNode& resolved);

}  // namespace sluice
