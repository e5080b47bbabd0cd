#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/metrics/sink.h"

namespace sluice {

/// Passes records on until they can't be written any more (a full disk): then
/// `lost` is called once, with the reason, and the rest is kept here. So the
/// run can be saved.
class GuardedSink final : public Sink {
 public:
  GuardedSink(std::shared_ptr<Sink> next,
              std::function<void(const std::string& reason)> lost)
      : next_(std::move(next)), lost_(std::move(lost)) {}

  void write(const Record& record) override {
    if (rest_.empty()) {
      try {
        next_->write(record);
        return;
      } catch (const UserError& error) {
        lost_(error.what());
      }
    }
    rest_.push_back(record);
  }

  /// The records that couldn't be written.
  const std::vector<Record>& rest() const { return rest_; }

 private:
  const std::shared_ptr<Sink> next_;
  const std::function<void(const std::string&)> lost_;
  std::vector<Record> rest_;
};

}  // namespace sluice
