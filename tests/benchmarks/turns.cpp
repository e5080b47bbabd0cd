#include "tests/benchmarks/turns.h"

#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {

namespace bp = boost::process;

Contestant::Contestant(const std::string& arguments)
    : command_(fmt::format("/proc/{}/exe {}", ::getpid(), arguments)),
      process_(command_, bp::std_in<to_, bp::std_out> from_) {
  take_turn();
}

Contestant::~Contestant() {
  // The end of its input would not reach it: those who were started later hold
  // that pipe too.
  std::error_code ignored;
  process_.terminate(ignored);
}

double Contestant::take_turn() {
  double seconds = 0;
  to_ << "go" << std::endl;
  if (!(from_ >> seconds)) throw UserError("this failed: {}", command_);
  return seconds;
}

Turns::Turns(int steps) : steps_(steps) {
  wait_for_turn();
}

void Turns::stepped() {
  using Clock = std::chrono::steady_clock;
  ++done_;
  if (done_ == 0) start_ = Clock::now();
  if (done_ < steps_) return;
  const std::chrono::duration<double> taken = Clock::now() - start_;
  fmt::print("{}\n", taken.count() / steps_);
  std::fflush(stdout);
  wait_for_turn();
}

void Turns::wait_for_turn() {
  std::string line;
  if (!std::getline(std::cin, line))
    throw UserError("the program that counts the turns has ended");
  done_ = -1;
}

}  // namespace sluice
