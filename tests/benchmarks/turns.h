#pragma once

#include <chrono>
#include <string>

#include <boost/process.hpp>

namespace sluice {

/// The parent's end of a variant that is measured in turns with others: a
/// process of its own, which sleeps unless it is its turn. What the machine
/// does meanwhile, and does differently from one second to the next, then
/// meets all variants alike.
class Contestant {
 public:
  /// Starts this program anew with these arguments and lets it make a first
  /// turn, with what it prepares.
  explicit Contestant(const std::string& arguments);
  ~Contestant();
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;

  /// Lets it make its steps, alone. Returns seconds per step; throws UserError
  /// when it ended instead.
  double take_turn();

 private:
  std::string command_;
  boost::process::opstream to_;
  boost::process::ipstream from_;
  boost::process::child process_;
};

/// The child's end: it trains for ever and says after each step that it did.
class Turns {
 public:
  /// `steps` are timed in a turn; one more before them fills the caches again.
  /// Waits for the first turn.
  explicit Turns(int steps);

  /// Returns when the next step is to be made. Throws UserError when the parent
  /// is gone; it ends this process itself otherwise.
  void stepped();

 private:
  void wait_for_turn();

  int steps_;
  int done_ = -1;  ///< of them in this turn
  std::chrono::steady_clock::time_point start_;
};

}  // namespace sluice
