#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/memory/account.h"
#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel.h"
#include "lib/base/messages/message.h"
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
  /// life: counts those that come to its place, from 1. It stays out where
  /// lose() has said so before.
  void admit(int member, std::int64_t life, Link link);
  /// As that, over the link that it has had from the start.
  void admit(int member);
  /// A replica is lost, though its link may not have ended. What has come over
  /// it by then was said before. Safe from any thread.
  void lose(int member, std::int64_t life = 0);
  /// Calls Centre::leave_out_place(). Safe from any thread.
  void leave_out_place();
  /// Calls Centre::merge_those_who_wait(). Safe from any thread.
  void merge_those_who_wait();
  CentreHost(const CentreHost&) = delete;
  CentreHost& operator=(const CentreHost&) = delete;

 private:
  void serve(int threads, const std::shared_ptr<MemoryAccount>& memory);
  bool take_some();
  /// A replica that comes or goes.
  struct Change {
    int member = 1;  ///< 0: a place is left out
    std::int64_t life = 0;
    bool joins = false;
    std::optional<Link> link = {};  ///< from then on; nothing: as before
  };
  void note(Change change);
  void take(Change change);
  bool take_changes();
  void hear_rest(int member);
  void hear_in_hand();
  void hear(int member, const Message& message);
  void take(int member);
  void answer(int member, Message message);
  void wait_since(std::uint64_t rung);
  bool is_over() const;

  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::vector<Link> links_;  // by replica; empty: it has ended
  std::vector<int> broken_;  // links that an answer found broken
  struct SaidMessage {
    int member = 1;
    Message message = {};
  };
  std::optional<SaidMessage> in_hand_;      // received, and not yet heard
  std::map<int, std::int64_t> lost_lives_;  // by replica, the last
  Centre centre_;
  std::mutex mutex_;  // guards what follows
  std::vector<Change> changes_;
  bool none_comes_ = false;
  std::thread thread_;
};

/// The links of all replicas to a centre in this process; nullptr for those
/// outside (CentreSetup::outside).
std::vector<std::unique_ptr<CentreLink>> links_to_centre(
    const CentreSetup& setup, int threads, Deadline deadline,
    std::shared_ptr<MemoryAccount> memory = nullptr);

}  // namespace sluice
