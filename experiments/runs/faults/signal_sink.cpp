#include "experiments/runs/faults/signal_sink.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <string>
#include <utility>

#include <sys/types.h>

namespace sluice {

SignalSink::SignalSink(std::vector<Injection> injections)
    : left_(std::move(injections)) {}

void SignalSink::write(const Record& record) {
  if (record.text("kind") != "injection") return;
  const std::string fault = record.text("fault");
  const auto found =
      std::find_if(left_.begin(), left_.end(),
                   [&](const Injection& each) { return each.text == fault; });
  if (found != left_.end()) left_.erase(found);
  const auto pid = static_cast<pid_t>(std::lround(record.number("pid", 0)));
  const auto signal = static_cast<int>(std::lround(record.number("signal", 0)));
  if (signal != 0 && pid > 1) ::kill(pid, signal);
}

std::vector<Injection> SignalSink::missed() const {
  std::vector<Injection> missed;
  std::copy_if(left_.begin(), left_.end(), std::back_inserter(missed),
               [](const Injection& each) { return each.is_once(); });
  return missed;
}

}  // namespace sluice
