#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/api/crew.h"
#include "experiments/api/fed_source.h"
#include "lib/base/channel.h"
#include "lib/engines/control.h"

namespace sluice {

/// The talk with workers that have a thread or process each, over their control
/// links (index k-1): grants down, of which that of a turn brings the batch to
/// block 1; records and reached grants up, read while the caller waits.
class ControlClient {
 public:
  /// on_failure is called once a worker has failed: it should make those end
  /// that don't do so by themselves. It may be empty.
  ControlClient(std::vector<Link> links,
                std::function<void(const Record&)> on_record,
                std::function<void()> on_failure);

  void give(const Grant& grant, const Batch* batch);
  /// As Crew::wait. After a failure all links are closed, which ends the
  /// workers.
  void wait(std::size_t ahead);

 private:
  struct Talk {
    Link link;
    std::size_t reached = 0;
  };

  void take(int block);
  std::optional<Failure> own_failure(int block);
  [[noreturn]] void fail(Failure failure);

  std::vector<Talk> talks_;
  std::function<void(const Record&)> on_record_;
  std::function<void()> on_failure_;
  std::size_t given_ = 0;
};

/// The most grants that are given and not yet carried out.
std::size_t grants_ahead(int blocks);
/// What control links must hold for so many.
Capacity control_capacity(int blocks);

/// The worker's side: what arrives over the control link, its batches taken
/// out and put into `into`.
std::unique_ptr<Receiver> take_batches(std::unique_ptr<Receiver> control,
                                       std::shared_ptr<FedSource> into);

}  // namespace sluice
