#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/messages/message.h"
#include "transport/shared/shared_area.h"
#include "transport/shared/shared_ring.h"
#include "transport/shared/shared_slots.h"
#include "transport/wire/frame.h"
#include "transport/wire/mailbox.h"

// Frames through a ring. They are those of the wire, but where the area has
// slots, a data frame with tensors has between block and payload where each
// tensor lies: 4 bytes each, the slot or kInRing; zeros up to a multiple of 64.
// The payload is that of the tensors in the ring.
namespace sluice {

inline constexpr std::uint32_t kInRing = 0xFFFFFFFF;

/// Bytes become visible to the other end, and room free, in pieces of so many,
/// so that both ends copy at the same time.
inline constexpr std::size_t kPieceBytes = std::size_t{128} << 10;

/// Tensors of so many bytes go to memory past the cache, which they would only
/// sweep: the next layer wouldn't find them there whole.
inline constexpr std::size_t kPastCache = std::size_t{4} << 20;

/// Writes frames into the ring of an area, as far as there is room. One thread
/// at a time, but where it says otherwise. `wake_reader` is called when the
/// reader sleeps and there is something for it.
class FrameWriter {
 public:
  FrameWriter(const std::shared_ptr<SharedArea>& area,
              std::shared_ptr<SlotPool> slots,
              std::function<void()> wake_reader);

  /// The frames to write next; all before must be written.
  void begin(OutgoingFrames out);
  /// Whether all is written. Throws LinkError.
  bool write();
  // The ring may be looked at on any thread.
  const RingWriter& ring() const { return ring_; }
  RingWriter& ring() { return ring_; }
  /// Payload that was copied into the ring; any thread may ask.
  std::uint64_t copied_bytes() const { return copied_.load(); }

 private:
  void place_tensors();
  void write_piece(std::size_t bytes);

  const std::shared_ptr<SlotPool> slots_;
  const std::function<void()> wake_reader_;
  RingWriter ring_;
  OutgoingFrames out_;
  SleepReason what_ = SleepReason::message;
  std::vector<std::span<const std::byte>> parts_;  // of what is not written yet
  std::size_t next_ = 0;                           // of the parts
  std::atomic<std::uint64_t> copied_ = 0;
};

/// Reads frames from the ring of a peer's area into a mailbox. For one thread
/// at a time, except where a comment says otherwise. `wake_writer` is called
/// when there is room again and the writer sleeps.
class FrameReader {
 public:
  FrameReader(std::shared_ptr<SharedArea> area, Mailbox& mailbox,
              const LinkOptions& options, std::function<void()> wake_writer);

  /// Reads everything that has arrived; false when nothing has. Throws
  /// LinkError, and the exceptions of the source of buffers.
  bool read();
  // The ring may be looked at on any thread.
  const RingReader& ring() const { return ring_; }
  RingReader& ring() { return ring_; }
  SharedArea& area() const { return *area_; }
  /// Progress of the peer's learner, as the peer says; nothing depends on it.
  std::uint64_t progress() const { return area_->words().progress.load(); }
  /// Payload that was copied out of the ring; any thread may ask.
  std::uint64_t copied_bytes() const { return copied_.load(); }

 private:
  enum class Step { header, block, places, payload };
  struct Part {
    std::byte* data;  // null: bytes to skip
    std::size_t bytes;
    RingReader::ReadTarget into = RingReader::ReadTarget::cache;
  };

  void read_piece(std::size_t bytes);
  void finish_step();
  void expect(Step step, std::span<std::byte> bytes);
  void take_header();
  void take_block();
  void take_places();
  void place(TensorView& tensor, std::uint32_t slot);
  void take_message();

  const std::shared_ptr<SharedArea> area_;
  Mailbox& mailbox_;
  const FrameLimits limits_;
  const BufferSource buffers_;
  const std::function<void()> wake_writer_;
  RingReader ring_;
  Step step_ = Step::header;
  std::array<std::byte, kHeaderBytes> header_bytes_ = {};
  FrameHeader header_;
  std::vector<std::byte> block_;
  std::vector<std::byte> places_;
  Message message_;
  std::vector<Part> parts_;  // of this step
  std::size_t next_ = 0;     // of the parts
  std::atomic<std::uint64_t> copied_ = 0;
};

}  // namespace sluice
