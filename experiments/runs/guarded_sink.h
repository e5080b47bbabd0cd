#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// Passes records on until they can't be written any more (a full disk): then
/// `lost` is called once, with the reason, and the rest is dropped. So the run
/// can be saved.
class GuardedSink final : public Sink {
 public:
  GuardedSink(std::shared_ptr<Sink> next,
              std::function<void(const std::string& reason)> lost)
      : next_(std::move(next)), lost_(std::move(lost)) {}

  void write(const Record& record) override {
    if (is_lost_) return;
    try {
      next_->write(record);
    } catch (const UserError& error) {
      is_lost_ = true;
      lost_(error.what());
    }
  }

 private:
  const std::shared_ptr<Sink> next_;
  const std::function<void(const std::string&)> lost_;
  bool is_lost_ = false;
};

}  // namespace sluice
