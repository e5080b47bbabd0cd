// Reading and writing of a connection.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

#include <boost/asio/post.hpp>

#include "lib/base/error.h"
#include "transport/links/connection_core.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

namespace asio = boost::asio;

constexpr std::array<std::byte, kAlignment> kPadding = {};

// Bytes written at once, so that a sending thread soon goes on with its work,
// and the loop's other handlers with theirs.
constexpr std::size_t kWrittenAtOnce = std::size_t{1} << 20;

// A multiple of kAlignment, so that only the last piece is padded.
constexpr std::size_t kSummedAtOnce = std::size_t{128} << 10;

}  // namespace

asio::awaitable<void> Connection::read_all(std::shared_ptr<Connection> self) {
  try {
    while (!self->mailbox_.over()) co_await self->read_frame();
    self->end_ = {.reason = kGone, .peer_gone = true};
  } catch (const std::exception& error) {
    self->end_ = end_after(error);
    if (self->silent_)
      self->end_ = {.reason = "its connection was silent for too long"};
  }
  if (!self->reconnects()) self->mailbox_.reading_ended(self->end_);
  self->stream_.close();
  self->wake_.cancel();
  ended(self);
}

asio::awaitable<void> Connection::read_frame() {
  std::array<asio::mutable_buffer, 1> parts{asio::buffer(header_)};
  co_await stream_.read(parts);
  const FrameHeader header = decode_header(header_, options_.limits);
  if (header.type != FrameType::beat) mailbox_.moved();
  if (header.type == FrameType::data) {
    co_await read_message(header);
  } else {
    take_control(header);
  }
  missed_beats_ = 0;
  trouble_.reset();
}

void Connection::take_control(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::hello:
      throw LinkError("it greeted twice");
    case FrameType::data:
      break;
    case FrameType::credit:
      mailbox_.heard_credit(header);
      break;
    case FrameType::bye:
    case FrameType::quit:
    case FrameType::stop:
    case FrameType::end:
      mailbox_.end_of_peer(header.type);
      wake_.cancel();  // there may be an answer
      break;
    case FrameType::beat:
      mailbox_.heard_beat(header);
      break;
  }
}

asio::awaitable<void> Connection::read_message(FrameHeader header) {
  const bool is_new = mailbox_.admit(header);
  std::vector<std::byte> block(header.block_bytes);
  std::array<asio::mutable_buffer, 1> parts{asio::buffer(block)};
  co_await stream_.read(parts, &moved_);
  Message message = decode_message(block, header, options_.limits);
  for (TensorView& tensor : message.tensors) supply_memory(tensor.buffer);
  if (header.checks_payload) {
    check_payload(co_await read_and_sum(message), header);
  } else {
    co_await read_payload(message);
  }
  if (is_new) mailbox_.deliver(std::move(message));
  // Yields, so that a thread that awaits the message doesn't wait for what
  // comes after it.
  co_await asio::post(executor_, asio::use_awaitable);
}

void Connection::supply_memory(Buffer& buffer) {
  const std::size_t bytes = buffer.bytes;
  buffer = options_.buffers(bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data);
  SLUICE_CHECK(buffer.bytes >= bytes && address % kAlignment == 0,
               "no aligned memory for {} bytes was supplied", bytes);
  buffer.bytes = bytes;
}

asio::awaitable<void> Connection::read_payload(const Message& message) {
  std::vector<asio::mutable_buffer> parts;
  for (const TensorView& tensor : message.tensors) {
    const std::size_t bytes = tensor.buffer.bytes;
    parts.emplace_back(tensor.buffer.data, bytes);
    parts.emplace_back(skipped_.data(), padded(bytes) - bytes);
  }
  co_await stream_.read(parts, &moved_);
}

// Reads the tensors piece by piece, and sums each piece while it is in the
// cache.
asio::awaitable<std::uint32_t> Connection::read_and_sum(
    const Message& message) {
  std::uint32_t crc = 0;
  for (const TensorView& tensor : message.tensors) {
    std::span<std::byte> left(tensor.buffer.data, tensor.buffer.bytes);
    while (!left.empty()) {
      const auto piece = left.first(std::min(left.size(), kSummedAtOnce));
      std::array<asio::mutable_buffer, 2> parts{
          asio::buffer(piece.data(), piece.size()),
          asio::buffer(skipped_.data(), padded(piece.size()) - piece.size())};
      co_await stream_.read(parts, &moved_);
      crc = crc32c(piece, crc);
      left = left.subspan(piece.size());
    }
  }
  co_return crc;
}

// The reader may still have messages to fetch, and sees the end by itself. The
// peer closes its side when it has read our last frame; to close ours first
// could throw that frame away.
asio::awaitable<void> Connection::write_all(std::shared_ptr<Connection> self) {
  try {
    co_await self->write_frames();
    self->stream_.shutdown_send();
  } catch (const std::exception& error) {
    if (self->reconnects()) {
      self->stream_.close();
    } else {
      self->mailbox_.sending_failed(end_after(error));
      self->stream_.shutdown_send();
    }
  }
  ended(self);
}

asio::awaitable<void> Connection::write_frames() {
  begin({.head = std::exchange(first_, {})});
  while (!unwritten_.empty() ||
         (!mailbox_.nothing_left() && stream_.is_open())) {
    if (!unwritten_.empty() || take_next()) {
      co_await stream_.write(unwritten_,
                             writing_.beats_only ? nullptr : &moved_);
      unwritten_.clear();
    } else {
      writer_rests_ = true;
      co_await wake_.async_wait(kResult);
      writer_rests_ = false;
    }
  }
}

// Writes as far as the socket takes it; false when the rest is left to the
// writer.
bool Connection::write_at_once() {
  if (!writer_rests_) return false;
  std::size_t budget = kWrittenAtOnce;
  while (budget > 0 && take_next()) {
    if (!stream_.try_write(unwritten_, budget)) break;
    if (!writing_.beats_only) moved_();
    unwritten_.clear();
  }
  if (budget > 0 && unwritten_.empty() && !mailbox_.nothing_left()) return true;
  writer_rests_ = false;
  wake_.cancel();
  return false;
}

// Takes the next frames. Returns whether there is anything to write.
bool Connection::take_next() {
  begin(mailbox_.next(std::exchange(credits_are_due_, false)
                          ? Mailbox::Credits::all
                          : Mailbox::Credits::many));
  if (writing_.head.empty() && mailbox_.owes_credits()) credit_later();
  return !writing_.head.empty();
}

void Connection::begin(OutgoingFrames out) {
  writing_ = std::move(out);
  unwritten_.clear();
  if (writing_.head.empty()) return;
  unwritten_.emplace_back(asio::buffer(writing_.head));
  for (const TensorView& tensor : writing_.message.tensors) {
    const std::size_t bytes = tensor.buffer.bytes;
    unwritten_.emplace_back(tensor.buffer.data, bytes);
    unwritten_.emplace_back(kPadding.data(), padded(bytes) - bytes);
  }
}

}  // namespace sluice
