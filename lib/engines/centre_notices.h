#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/engines/control_codec.h"

namespace sluice {

/// Passes on what a centre is to know of replicas, from whichever thread learns
/// of it, to a centre that is made later. Safe from any thread.
class CentreNotices {
 public:
  void tell(const CentreNotice& notice);
  /// Sets who takes the notices, those before this call too.
  void give_to(std::function<void(const CentreNotice&)> taker);

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<CentreNotice> before_;
  std::function<void(const CentreNotice&)> taker_;
};

/// The receiving end of a control link from which notices are taken as soon as
/// they come, by a thread of its own: a worker takes its messages between two
/// grants, and in a grant may wait for a replica that is lost.
std::unique_ptr<Receiver> with_notices_ahead(
    std::unique_ptr<Receiver> control, std::shared_ptr<CentreNotices> notices);

}  // namespace sluice
