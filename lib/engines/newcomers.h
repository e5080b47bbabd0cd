#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/messages/bell.h"
#include "lib/base/messages/channel.h"

namespace sluice {

/// What a crew learns of a replica that joins its run.
struct NewcomerNews {
  enum class Kind : std::uint8_t {
    calls,    ///< its workers wait at `address` for replica 1's
    joined,   ///< all have their links
    missing,  ///< it won't come: another may call
    closed    ///< nor can any other
  };
  Kind kind = Kind::calls;
  int replica = 2;
  std::string address = {};
  std::vector<Link> links = {};  ///< control, by block, of one that has joined
};

/// Where replicas call that join a run while it goes on, one after the other.
/// Used by the crew's thread.
class Newcomers {
 public:
  virtual ~Newcomers() = default;
  /// To be called once: the bell is rung when next() has something.
  virtual void ring(std::shared_ptr<Bell> bell) = 0;
  /// The next one that calls becomes this replica. To be called first, and
  /// again after `missing`, or when the one that has `joined` has its links.
  virtual void offer(int replica) = 0;
  /// Sends away who calls: it is `missing`, unless it has joined already.
  virtual void dismiss() = 0;
  virtual std::optional<NewcomerNews> next() = 0;
};

}  // namespace sluice
