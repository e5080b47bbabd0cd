#include "transport/wire/handshake.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "transport/wire/bytes.h"

namespace sluice {
namespace {

// The first byte is no text, as that of a frame.
constexpr std::uint32_t kHandshakeMagic = 0x484C539C;  // 9C 'S' 'L' 'H'
constexpr std::size_t kHandshakeReserved = 16;

Side other(Side side) {
  return side == Side::caller ? Side::called : Side::caller;
}

std::vector<std::byte> encode(const Greeting& greeting, Side side) {
  ByteWriter out;
  out.put(kHandshakeMagic);
  out.put(greeting.versions.least);
  out.put(greeting.versions.most);
  out.put(static_cast<std::uint8_t>(side));
  out.put(std::uint8_t{0});
  out.put(greeting.from);
  out.put(greeting.to);
  out.pad_to(kGreetingBytes / 2);
  std::vector<std::byte> bytes = out.take();
  bytes.insert(bytes.end(), greeting.nonce.begin(), greeting.nonce.end());
  return bytes;
}

// Throws LinkError.
Greeting decode(std::span<const std::byte> bytes, Side side) {
  ByteReader in(bytes);
  if (in.take<std::uint32_t>() != kHandshakeMagic) {
    throw LinkError("what arrived is no greeting of Sluice");
  }
  Greeting greeting;
  greeting.versions.least = in.take<std::uint8_t>();
  greeting.versions.most = in.take<std::uint8_t>();
  if (in.take<std::uint8_t>() != static_cast<std::uint8_t>(side)) {
    throw LinkError("it greeted as if it were on our side");
  }
  in.take_zeros(1);
  greeting.from = in.take<std::uint32_t>();
  greeting.to = in.take<std::uint32_t>();
  in.take_zeros(kHandshakeReserved);
  const auto nonce = bytes.last(greeting.nonce.size());
  std::copy(nonce.begin(), nonce.end(), greeting.nonce.begin());
  return greeting;
}

}  // namespace

Handshake::Handshake(Side side, const Secret& secret, const Greeting& mine)
    : side_(side), secret_(secret), mine_(mine) {
  SLUICE_CHECK(!secret_.empty(), "a connection needs the run's secret");
  if (side_ == Side::caller) send_greeting();
}

std::vector<std::byte> Handshake::output() {
  return std::exchange(output_, {});
}

std::size_t Handshake::awaited() const {
  if (verdict_ != Verdict::open) return 0;
  if (side_ == Side::caller) return kGreetingBytes + kProofBytes;
  return their_bytes_.empty() ? kGreetingBytes : kProofBytes;
}

void Handshake::take(std::span<const std::byte> bytes) {
  SLUICE_CHECK(bytes.size() == awaited(), "{} bytes, but {} were awaited",
               bytes.size(), awaited());
  if (side_ == Side::caller) {
    if (!take_greeting(bytes.first(kGreetingBytes))) return;
    take_proof(bytes.subspan(kGreetingBytes));
    // A peer of another version gets the proof too: it then knows that this
    // caller holds the run's secret.
    if (verdict_ != Verdict::stranger) send_proof();
  } else if (their_bytes_.empty()) {
    if (!take_greeting(bytes)) return;
    mine_.to = theirs_.from;
    send_greeting();
    send_proof();
  } else {
    take_proof(bytes);
  }
}

bool Handshake::take_greeting(std::span<const std::byte> bytes) {
  try {
    theirs_ = decode(bytes, other(side_));
  } catch (const LinkError& error) {
    refuse(error.what());
    return false;
  }
  their_bytes_.assign(bytes.begin(), bytes.end());
  return true;
}

void Handshake::take_proof(std::span<const std::byte> bytes) {
  if (same_in_constant_time(bytes, proof_of(other(side_)))) {
    compare_versions();
  } else {
    refuse("it does not hold this run's secret");
  }
}

void Handshake::compare_versions() {
  const Versions ours = mine_.versions;
  const Versions peers = theirs_.versions;
  version_ = std::min(ours.most, peers.most);
  if (version_ >= std::max(ours.least, peers.least)) {
    verdict_ = Verdict::agreed;
    return;
  }
  verdict_ = Verdict::other_version;
  reason_ = fmt::format(
      "it speaks versions {} to {} of the wire format, but this program {} to "
      "{}: run the same build of Sluice in all processes",
      peers.least, peers.most, ours.least, ours.most);
}

void Handshake::refuse(std::string reason) {
  verdict_ = Verdict::stranger;
  reason_ = std::move(reason);
}

void Handshake::send_greeting() {
  my_bytes_ = encode(mine_, side_);
  output_.insert(output_.end(), my_bytes_.begin(), my_bytes_.end());
}

void Handshake::send_proof() {
  const Secret::Bytes proof = proof_of(side_);
  output_.insert(output_.end(), proof.begin(), proof.end());
}

Secret::Bytes Handshake::proof_of(Side side) const {
  return hmac_of_both(side == Side::caller ? "sluice proof of the caller"
                                           : "sluice proof of the called");
}

Session Handshake::session() const {
  const Secret::Bytes bytes = hmac_of_both("sluice session");
  Session session = {};
  std::copy_n(bytes.begin(), session.size(), session.begin());
  return session;
}

Secret::Bytes Handshake::hmac_of_both(std::string_view purpose) const {
  const bool calls = side_ == Side::caller;
  std::vector<std::byte> both = calls ? my_bytes_ : their_bytes_;
  const std::vector<std::byte>& second = calls ? their_bytes_ : my_bytes_;
  both.insert(both.end(), second.begin(), second.end());
  return hmac(secret_.key_for(purpose), both);
}

}  // namespace sluice
