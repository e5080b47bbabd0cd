#pragma once

#include <vector>

#include "experiments/runs/faults/injection.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// The launcher's side of faults: knows which have happened, and sends the
/// signals that workers ask for (FaultInjector). Records come from one thread
/// at a time.
class SignalSink final : public Sink {
 public:
  explicit SignalSink(std::vector<Injection> injections);

  void write(const Record& record) override;

  /// Faults that shall still happen, or happen all the time.
  const std::vector<Injection>& left() const { return left_; }
  /// Faults that should have happened once and didn't.
  std::vector<Injection> missed() const;

 private:
  std::vector<Injection> left_;
};

}  // namespace sluice
