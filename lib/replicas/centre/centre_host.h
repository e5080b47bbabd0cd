#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/memory/account.h"
#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel.h"
#include "lib/replicas/centre/centre.h"
#include "lib/replicas/centre/centre_link.h"

namespace sluice {

/// Messages that a link between a replica and its centre must hold in each
/// direction.
inline constexpr std::size_t kCentreCapacity = 4;

/// The centre of a block at work: takes what comes over the links of all
/// replicas, in the order in which it comes, in a thread of its own.
class CentreHost {
 public:
  /// links: index r-1 for replica r; without ends for one that isn't there.
  /// threads: of LibTorch, as the seats'. memory: charged with what the centre
  /// keeps, if given.
  CentreHost(CentreSetup setup, std::vector<Link> links, int threads,
             std::shared_ptr<MemoryAccount> memory = nullptr);
  /// Waits until all replicas have finished, or are gone.
  ~CentreHost();
  /// A replica that has left, or was never there, joins, before anything that
  /// another says after this call. Safe from any thread, while the host has a
  /// replica.
  void admit(int member, Link link);
  CentreHost(const CentreHost&) = delete;
  CentreHost& operator=(const CentreHost&) = delete;

 private:
  void serve(int threads, const std::shared_ptr<MemoryAccount>& memory);
  bool take_some();
  bool take_newcomers();
  void take(int member);
  void answer(int member, Message message);
  void wait_since(std::uint64_t rung);
  bool is_over() const;

  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::vector<Link> links_;  // by replica; empty: it has ended
  std::vector<int> broken_;  // links that an answer found broken
  Centre centre_;
  std::mutex mutex_;  // guards newcomers_
  std::vector<std::pair<int, Link>> newcomers_;
  std::thread thread_;
};

/// The links of all replicas to a centre in this process.
std::vector<std::unique_ptr<CentreLink>> links_to_centre(
    const CentreSetup& setup, int threads, Deadline deadline,
    std::shared_ptr<MemoryAccount> memory = nullptr);

}  // namespace sluice
