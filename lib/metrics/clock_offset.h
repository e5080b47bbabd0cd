#pragma once

#include <limits>

namespace sluice {

/// This machine's steady clock, in seconds; processes of one host share it.
double steady_seconds();

/// By how much a worker's clock is ahead of the coordinator's, in seconds.
struct ClockOffset {
  double offset = 0;
  /// The true one differs by this at most, for as long as neither clock drifts.
  double uncertainty = std::numeric_limits<double>::infinity();

  /// 0 when that is as good a guess, as on one host: what is measured would
  /// only make it worse.
  double correction() const;
};

/// The coordinator asks a worker for the time, a few times. What is answered
/// was true at some moment between the question and the answer; the shortest
/// way there and back says most (as NTP, RFC 5905, section 8).
class ClockExchange {
 public:
  static constexpr int kQuestions = 8;

  /// Notes that a question goes out, or that its answer has come, at that time
  /// here. `there` is what the answer says.
  void asks(double here) { asked_ = here; }
  void hears(double there, double here);
  bool is_over() const { return answers_ == kQuestions; }
  const ClockOffset& best() const { return best_; }

 private:
  double asked_ = 0;
  int answers_ = 0;
  ClockOffset best_;
};

}  // namespace sluice
