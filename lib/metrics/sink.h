#pragma once

#include "lib/metrics/record.h"

namespace sluice {

/// Receives metric records, from one thread.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void write(const Record& record) = 0;
};

}  // namespace sluice
