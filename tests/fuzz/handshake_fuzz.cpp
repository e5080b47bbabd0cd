// Whatever a peer says in the handshake, one that doesn't hold the secret is
// refused; and no byte of a true handshake can be changed on its way.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "transport/wire/handshake.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

Handshake side(Side side) {
  Secret::Bytes secret;
  secret.fill(std::byte{7});
  Greeting mine{.versions = {1, 2}, .from = 1, .to = 2};
  mine.nonce.fill(static_cast<std::byte>(side));
  return {side, Secret(secret), mine};
}

void require(bool condition) {
  if (!condition) std::abort();
}

// A peer that knows nothing: all of the input is what it says.
void check_stranger(Side role, std::span<const std::byte> bytes) {
  Handshake handshake = side(role);
  while (handshake.awaited() > 0 && bytes.size() >= handshake.awaited()) {
    const std::size_t count = handshake.awaited();
    handshake.take(bytes.first(count));
    bytes = bytes.subspan(count);
  }
  require(handshake.verdict() == Verdict::open ||
          handshake.verdict() == Verdict::stranger);
  require(handshake.verdict() == Verdict::open || !handshake.reason().empty());
}

// Adds the input's bytes to those on their way; true when that changed some.
bool disturb(Bytes& sent, std::span<const std::byte>& noise) {
  bool changed = false;
  for (std::size_t i = 0; i < sent.size() && i < noise.size(); ++i) {
    sent[i] ^= noise[i];
    changed = changed || noise[i] != std::byte{0};
  }
  noise = noise.subspan(std::min(sent.size(), noise.size()));
  return changed;
}

// Somebody between two that hold the secret. A side that heard something
// changed doesn't agree.
void check_between(std::span<const std::byte> noise) {
  Handshake caller = side(Side::caller);
  Handshake called = side(Side::called);
  Bytes sent = caller.output();
  const bool first = disturb(sent, noise);
  called.take(sent);
  if (called.verdict() != Verdict::open) return require(first);
  sent = called.output();
  const bool second = disturb(sent, noise);
  caller.take(sent);
  require((caller.verdict() == Verdict::agreed) == (!first && !second));
  if (caller.verdict() != Verdict::agreed) return;
  sent = caller.output();
  const bool third = disturb(sent, noise);
  called.take(sent);
  require((called.verdict() == Verdict::agreed) == !third);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  sluice::check_stranger(sluice::Side::caller, bytes);
  sluice::check_stranger(sluice::Side::called, bytes);
  sluice::check_between(bytes);
  return 0;
}
