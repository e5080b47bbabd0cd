// Whatever a peer writes into the memory that it shares, its index and its
// offer included: messages within the area, or a LinkError.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/error.h"
#include "transport/shared/shared_frames.h"
#include "transport/shared/shared_offer.h"
#include "transport/wire/frame.h"
#include "transport/wire/mailbox.h"

namespace sluice {
namespace {

using Bytes = std::vector<std::byte>;

constexpr AreaShape kShape{
    .ring_bytes = kMinRingBytes, .slots = 2, .slot_bytes = 4096};

// Where the header's fields lie (transport/README.md).
constexpr std::size_t kHeaderCrc = 8;
constexpr std::size_t kBlockCrc = 12;
constexpr std::size_t kBlockBytes = 24;

void put(Bytes& frame, std::size_t offset, std::uint32_t value) {
  std::memcpy(frame.data() + offset, &value, sizeof value);
}

// A frame with a block of 128 bytes and the checksums that fit, so that the
// fuzzer gets past them; what follows is left to it.
Bytes repaired(Bytes bytes) {
  constexpr std::size_t kBlock = 128;
  bytes.resize(std::max(kHeaderBytes + kBlock, bytes.size()));
  put(bytes, kBlockBytes, kBlock);
  put(bytes, kBlockCrc, crc32c(std::span(bytes).subspan(kHeaderBytes, kBlock)));
  put(bytes, kHeaderCrc, 0);
  put(bytes, kHeaderCrc, crc32c(std::span(bytes).first(kHeaderBytes)));
  return bytes;
}

// Reads all of a message, so that a sanitizer sees what lies outside.
void touch(const Message& message) {
  for (const TensorView& tensor : message.tensors) {
    const std::span<const std::byte> bytes(tensor.buffer.data,
                                           tensor.buffer.bytes);
    volatile unsigned sum = 0;
    for (const std::byte byte : bytes) sum = sum + static_cast<unsigned>(byte);
  }
}

void read_all(const std::shared_ptr<SharedArea>& area) {
  LinkOptions options{.capacity_receive = 4,
                      .limits = {.max_payload_bytes = 1 << 20}};
  Mailbox mailbox(options, {});
  FrameReader reader(area, mailbox, options, [] {});
  try {
    reader.read();
  } catch (const LinkError&) {
    mailbox.reading_ended({.reason = "damaged"});
  }
  while (mailbox.waiting_bytes() > 0) touch(*mailbox.receive());
}

std::shared_ptr<SharedArea> make_area() {
  FileDescriptor file;
  return SharedArea::make(kShape, file);
}

void check(std::span<const std::byte> bytes) {
  static const std::shared_ptr<SharedArea> area = make_area();
  area->words().head = 0;
  const std::size_t count = std::min(bytes.size(), area->ring().size());
  std::copy_n(bytes.begin(), count, area->ring().begin());
  area->words().tail = count;
  read_all(area);
}

void check_offer(std::span<const std::byte> bytes) {
  try {
    const AreaShape shape = decode_shape(bytes);
    if (area_bytes(shape) > 2 * kMaxAreaBytes) std::abort();
  } catch (const LinkError&) {
    return;
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const sluice::Bytes bytes(begin, begin + size);
  sluice::check(bytes);
  sluice::check(sluice::repaired(bytes));
  sluice::check_offer(bytes);
  return 0;
}
