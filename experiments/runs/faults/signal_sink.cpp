#include "experiments/runs/faults/signal_sink.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "lib/metrics/records.h"

namespace sluice {

SignalSink::SignalSink(std::vector<Injection> injections)
    : left_(std::move(injections)) {}

void SignalSink::write(const Record& record) {
  const auto injection = record.as<records::Injection>();
  if (!injection) return;
  const auto found = std::find_if(
      left_.begin(), left_.end(),
      [&](const Injection& each) { return each.text == injection->fault; });
  if (found != left_.end()) left_.erase(found);
  if (injection->signal != 0 && injection->pid > 1)
    ::kill(injection->pid, injection->signal);
}

std::vector<Injection> SignalSink::missed() const {
  std::vector<Injection> missed;
  std::copy_if(left_.begin(), left_.end(), std::back_inserter(missed),
               [](const Injection& each) { return each.is_once(); });
  return missed;
}

}  // namespace sluice
