#include "transport/shared/shared_frames.h"

#include <algorithm>
#include <utility>

#include "lib/base/error.h"
#include "transport/wire/bytes.h"

namespace sluice {
namespace {

constexpr std::array<std::byte, kAlignment> kSharedPadding = {};

constexpr std::size_t kTypeOffset = 5;  // of a frame's header

SleepReason what_is_in(const std::vector<std::byte>& frames) {
  const bool is_credit =
      frames.size() == kHeaderBytes &&
      frames[kTypeOffset] == static_cast<std::byte>(FrameType::credit);
  return is_credit ? SleepReason::credit : SleepReason::message;
}

}  // namespace

FrameWriter::FrameWriter(const std::shared_ptr<SharedArea>& area,
                         std::shared_ptr<SlotPool> slots,
                         std::function<void()> wake_reader)
    : slots_(std::move(slots)),
      wake_reader_(std::move(wake_reader)),
      ring_(area->words(), area->ring()) {}

void FrameWriter::begin(OutgoingFrames out) {
  SLUICE_CHECK(next_ == parts_.size(), "a frame is not yet written");
  out_ = std::move(out);
  what_ = what_is_in(out_.head);
  parts_.clear();
  next_ = 0;
  parts_.emplace_back();  // for the head, which may still grow
  place_tensors();
  parts_.front() = out_.head;
}

void FrameWriter::place_tensors() {
  if (out_.message.tensors.empty()) return;
  ByteWriter places;
  for (const TensorView& tensor : out_.message.tensors) {
    const auto slot = slots_->lend(tensor.buffer);
    places.put(slot.value_or(kInRing));
    if (slot.has_value()) continue;
    const std::size_t bytes = tensor.buffer.bytes;
    copied_ += bytes;
    parts_.emplace_back(tensor.buffer.data, bytes);
    parts_.push_back(std::span(kSharedPadding).first(padded(bytes) - bytes));
  }
  if (!slots_->has_slots()) return;
  places.pad_to(kAlignment);
  const std::vector<std::byte> bytes = places.take();
  out_.head.insert(out_.head.end(), bytes.begin(), bytes.end());
}

bool FrameWriter::write() {
  while (next_ < parts_.size()) {
    const std::size_t room = ring_.room();
    if (room == 0) return false;
    write_piece(std::min(room, kPieceBytes));
    if (ring_.publish(what_)) wake_reader_();
  }
  out_ = {};
  return true;
}

void FrameWriter::write_piece(std::size_t bytes) {
  while (next_ < parts_.size()) {
    std::span<const std::byte>& part = parts_[next_];
    const std::size_t count = std::min(bytes, part.size());
    ring_.write(part.first(count));
    part = part.subspan(count);
    bytes -= count;
    if (!part.empty()) return;
    ++next_;
  }
}

FrameReader::FrameReader(std::shared_ptr<SharedArea> area, Mailbox& mailbox,
                         const LinkOptions& options,
                         std::function<void()> wake_writer)
    : area_(std::move(area)),
      mailbox_(mailbox),
      limits_(options.limits),
      buffers_(options.buffers),
      wake_writer_(std::move(wake_writer)),
      ring_(area_->words(), area_->ring()) {
  expect(Step::header, header_bytes_);
}

bool FrameReader::read() {
  bool any = false;
  while (const std::size_t there = ring_.available()) {
    any = true;
    read_piece(std::min(there, kPieceBytes));
    mailbox_.moved();
    if (ring_.release()) wake_writer_();
  }
  return any;
}

void FrameReader::read_piece(std::size_t bytes) {
  while (bytes > 0) {
    Part& part = parts_[next_];
    const std::size_t count = std::min(bytes, part.bytes);
    if (part.data == nullptr) {
      ring_.skip(count);
    } else {
      ring_.read({part.data, count}, part.into);
      part.data += count;
    }
    part.bytes -= count;
    bytes -= count;
    if (part.bytes > 0) return;
    ++next_;
    while (next_ == parts_.size()) finish_step();
  }
}

void FrameReader::expect(Step step, std::span<std::byte> bytes) {
  step_ = step;
  next_ = 0;
  parts_.clear();
  if (!bytes.empty()) parts_.push_back({bytes.data(), bytes.size()});
}

void FrameReader::finish_step() {
  switch (step_) {
    case Step::header:
      return take_header();
    case Step::block:
      return take_block();
    case Step::places:
      return take_places();
    case Step::payload:
      return take_message();
  }
}

void FrameReader::take_header() {
  header_ = decode_header(header_bytes_, limits_);
  switch (header_.type) {
    case FrameType::hello:
      throw LinkError("it greeted twice");
    case FrameType::data:
      mailbox_.admit(header_);
      block_.resize(header_.block_bytes);
      return expect(Step::block, block_);
    case FrameType::credit:
      mailbox_.heard_credit(header_);
      break;
    case FrameType::bye:
    case FrameType::quit:
    case FrameType::stop:
      mailbox_.end_of_peer(header_.type);
      break;
    case FrameType::beat:
    case FrameType::end:
      throw LinkError("it sent a frame that is for sockets only");
  }
  expect(Step::header, header_bytes_);
}

void FrameReader::take_block() {
  message_ = decode_message(block_, header_, limits_);
  const std::size_t tensors = message_.tensors.size();
  places_.clear();
  if (area_->shape().slots > 0) {
    places_.resize(padded(tensors * sizeof kInRing));
  }
  expect(Step::places, places_);
}

void FrameReader::take_places() {
  expect(Step::payload, {});
  ByteReader in(places_);
  for (TensorView& tensor : message_.tensors) {
    place(tensor, places_.empty() ? kInRing : in.take<std::uint32_t>());
  }
  in.take_zeros(in.left());
}

void FrameReader::place(TensorView& tensor, std::uint32_t slot) {
  const std::size_t bytes = tensor.buffer.bytes;
  if (slot != kInRing) {
    const AreaShape& shape = area_->shape();
    if (slot >= shape.slots || bytes > shape.slot_bytes) {
      throw LinkError("tensor of {} bytes in slot {}; there are {} of {} bytes",
                      bytes, slot, shape.slots, shape.slot_bytes);
    }
    tensor.buffer = borrow_slot(area_, slot, bytes);
    return;
  }
  tensor.buffer = buffers_(bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.buffer.data);
  SLUICE_CHECK(tensor.buffer.bytes >= bytes && address % kAlignment == 0,
               "no aligned memory for {} bytes was supplied", bytes);
  tensor.buffer.bytes = bytes;
  copied_ += bytes;
  if (bytes == 0) return;
  parts_.push_back({tensor.buffer.data, bytes,
                    bytes >= kPastCache ? RingReader::ReadTarget::memory
                                        : RingReader::ReadTarget::cache});
  if (padded(bytes) > bytes) parts_.push_back({nullptr, padded(bytes) - bytes});
}

void FrameReader::take_message() {
  mailbox_.deliver(std::exchange(message_, {}));
  expect(Step::header, header_bytes_);
}

}  // namespace sluice
