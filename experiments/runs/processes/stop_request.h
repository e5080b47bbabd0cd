#pragma once

#include <mutex>

#include "lib/engines/coordinator.h"

namespace sluice {

/// Whether a run shall stop. It is asked for once and holds for all attempts of
/// the run, the next one too when none is under way. Safe to use from several
/// threads.
class StopRequest {
 public:
  void make() {
    const std::lock_guard lock(mutex_);
    is_made_ = true;
    if (coordinator_ != nullptr) coordinator_->request_stop();
  }
  bool is_made() const {
    const std::lock_guard lock(mutex_);
    return is_made_;
  }

  /// A guard: while it lives, requests to stop go to that coordinator.
  class Recipient {
   public:
    Recipient(StopRequest& request, Coordinator& coordinator)
        : request_(request) {
      const std::lock_guard lock(request_.mutex_);
      request_.coordinator_ = &coordinator;
      if (request_.is_made_) coordinator.request_stop();
    }
    ~Recipient() {
      const std::lock_guard lock(request_.mutex_);
      request_.coordinator_ = nullptr;
    }
    Recipient(const Recipient&) = delete;
    Recipient& operator=(const Recipient&) = delete;

   private:
    StopRequest& request_;
  };

 private:
  mutable std::mutex mutex_;
  // Under the mutex.
  bool is_made_ = false;
  Coordinator* coordinator_ = nullptr;
};

}  // namespace sluice
