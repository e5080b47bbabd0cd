#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lib/metrics/sink.h"

namespace sluice {

/// The experiment trackers of a run (the key `logger`), each a process of its
/// own that reads the run's folder: python -m sluice.track, of the package in
/// python/, by the Python that the variable SLUICE_PYTHON names, or else
/// python3. A tracker ends by itself when its standard input does, which is
/// with this object, however the process ends. What goes wrong there is a line
/// on stderr and harms no run. As a sink it takes nothing from records: it
/// looks now and then whether a tracker has failed.
class Trackers final : public Sink {
 public:
  /// Starts them; TensorBoard's file is written without one. `folder` may be
  /// about to become a run's.
  Trackers(const std::vector<std::string>& names, const std::string& folder);
  /// Waits until they have told all, for a minute at most.
  ~Trackers() override;
  Trackers(const Trackers&) = delete;
  Trackers& operator=(const Trackers&) = delete;

  void write(const Record& record) override;

 private:
  class Process;

  std::vector<std::unique_ptr<Process>> processes_;
  std::chrono::steady_clock::time_point looked_ = {};
};

}  // namespace sluice
