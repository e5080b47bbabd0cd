#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/wire/secret.h"

// What happens on a connection before anything else: both sides prove that they
// hold the run's secret (transport/README.md has the bytes).
//
//   caller -> called   greeting
//   called -> caller   greeting, proof
//   caller -> called   proof
namespace sluice {

/// The side that connected, and the side that listened.
enum class Side : std::uint8_t { caller = 1, called = 2 };

/// Versions of the wire format that a program speaks.
struct Versions {
  std::uint8_t least = 0;
  std::uint8_t most = 0;

  bool operator==(const Versions&) const = default;
};

using Nonce = std::array<std::byte, 32>;

/// Names one life of a link: that of the connection that it began with. All
/// zeros: none yet.
using Session = std::array<std::byte, 16>;

/// What each side says in the clear. Nothing of it is believed, nor parsed
/// beyond these fixed fields, before the proof came.
struct Greeting {
  Versions versions = {};
  std::uint32_t from = 0;  ///< block, or 0 for the launcher
  std::uint32_t to = 0;    ///< from the called: the block that called
  Nonce nonce = {};        ///< random, and never used twice
};

inline constexpr std::size_t kGreetingBytes = 64;
inline constexpr std::size_t kProofBytes = Secret::kBytes;

enum class Verdict : std::uint8_t {
  open,           ///< it goes on
  agreed,         ///< the peer belongs to the run
  stranger,       ///< it doesn't: hang up
  other_version,  ///< it does, but it is a program of another build
};

/// A side of the handshake: bytes in, bytes out, a verdict. Knows no sockets. A
/// proof is the HMAC of both greetings under a key that the role is part of, so
/// that none fits another connection, or is good for the other side.
class Handshake {
 public:
  /// `mine.to` is of no meaning for the called side.
  Handshake(Side side, const Secret& secret, const Greeting& mine);

  /// What is to be written now: once each, and before the verdict is acted on.
  std::vector<std::byte> output();
  /// Number of the peer's bytes that are awaited; 0 when there is a verdict.
  std::size_t awaited() const;
  /// Takes so many bytes, just as they came.
  void take(std::span<const std::byte> bytes);

  Verdict verdict() const { return verdict_; }
  /// Reason of a verdict other than `agreed`.
  const std::string& reason() const { return reason_; }
  /// The peer's greeting; believe it once the verdict is not `stranger`.
  const Greeting& theirs() const { return theirs_; }
  /// The newest version that both speak; valid when they agreed.
  std::uint8_t version() const { return version_; }
  /// Session, equal on both sides and only of this connection; once agreed.
  Session session() const;

 private:
  void refuse(std::string reason);
  bool take_greeting(std::span<const std::byte> bytes);
  void take_proof(std::span<const std::byte> bytes);
  void compare_versions();
  void send_greeting();
  void send_proof();
  Secret::Bytes proof_of(Side side) const;
  Secret::Bytes hmac_of_both(std::string_view purpose) const;

  const Side side_;
  const Secret secret_;
  Greeting mine_;
  Greeting theirs_ = {};
  std::vector<std::byte> my_bytes_;     // my greeting as it was sent
  std::vector<std::byte> their_bytes_;  // theirs as it came
  std::vector<std::byte> output_;
  Verdict verdict_ = Verdict::open;
  std::uint8_t version_ = 0;
  std::string reason_;
};

}  // namespace sluice
