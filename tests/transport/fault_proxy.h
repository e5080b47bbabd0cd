#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/links/io_thread.h"
#include "transport/meeting/transports.h"

namespace sluice {

/// What goes wrong in one direction of a connection, once, when so many bytes
/// of it have passed.
struct Fault {
  enum class Kind : std::uint8_t {
    none,
    cut,    ///< both sides see the end of the connection
    reset,  ///< both sides see an error
    flip,   ///< the lowest bit of that byte changes
    stall,  ///< nothing passes any more; the connection stays
  };
  Kind kind = Kind::none;
  std::uint64_t after = 0;
};

/// What happens to one connection.
struct Faults {
  Fault up = {};    ///< from the caller to the called
  Fault down = {};  ///< the other way
  /// Of every piece that passes, either way.
  std::chrono::milliseconds delay = std::chrono::milliseconds(0);
};

/// Stands between two ends of a transport, and passes on what they send, with
/// faults. Safe to use from any thread.
class FaultProxy {
 public:
  /// Faults of the n-th connection, from 0. Called on the proxy's own thread.
  using Plan = std::function<Faults(int connection)>;

  /// Listens at a place of its own, of the same transport, and connects each
  /// caller to `target`.
  FaultProxy(const std::string& transport, const Place& place,
             std::string target, Plan plan = nullptr);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  const std::string& address() const { return address_; }
  int connections() const;
  /// Ends all connections that there are.
  void cut();
  /// All bytes that passed, in both directions.
  std::string passed() const;

 private:
  class Room;
  std::shared_ptr<Room> room_;
  std::string address_;
  IoThread io_;
};

}  // namespace sluice
