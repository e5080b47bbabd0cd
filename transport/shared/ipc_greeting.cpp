#include "transport/shared/ipc_greeting.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "lib/base/error.h"
#include "transport/wire/bytes.h"

namespace sluice {
namespace {

constexpr std::uint32_t kGreetingMagic = 0x1C474C53;  // "SLG" and a version
constexpr std::size_t kMostText = 200;
constexpr std::size_t kGreetingAlignment = 8;

std::string_view cut_text(const std::string& text) {
  return std::string_view(text).substr(0, kMostText);
}

template <std::size_t N>
std::string_view text_of_bytes(const std::array<std::byte, N>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), N};
}

template <std::size_t N>
void take_array(ByteReader& in, std::array<std::byte, N>& bytes) {
  const std::string text = in.take_text(N);
  std::memcpy(bytes.data(), text.data(), N);
}

std::string take_short_text(ByteReader& in) {
  const auto length = in.take<std::uint16_t>();
  if (length > kMostText)
    throw LinkError("greeting of a GPU: a text of {} bytes; at most {}", length,
                    kMostText);
  return in.take_text(length);
}

Message greeting_message(std::span<const std::byte> bytes) {
  Buffer buffer = allocate_buffer(bytes.size());
  std::copy(bytes.begin(), bytes.end(), buffer.data);
  Message message{.kind = MessageKind::exchange};
  TensorView tensor{.name = "gpu",
                    .dtype = DType::uint8,
                    .sizes = {static_cast<std::int64_t>(bytes.size())},
                    .strides = {1},
                    .buffer = std::move(buffer)};
  message.tensors.push_back(std::move(tensor));
  return message;
}

IpcHello next_hello(Receiver& from) {
  const std::optional<Message> message = from.receive();
  if (!message) throw PeerGoneError("it is gone");
  if (message->kind != MessageKind::exchange || message->tensors.size() != 1)
    throw LinkError("a message came instead of the greeting of a GPU");
  const Buffer& buffer = message->tensors.front().buffer;
  return decode_ipc_hello({buffer.data, buffer.bytes});
}

/// Reason why this end can't read the other's memory; "": it can.
std::string why_no_ipc(const IpcHello& mine, const IpcHello& theirs,
                       IpcDevice* device) {
  if (!mine.refusal.empty()) return mine.refusal;
  if (!theirs.refusal.empty()) return theirs.refusal;
  if (mine.boot != theirs.boot) return "they are on two hosts";
  if (mine.device == theirs.device && !mine.same_gpu_refusal.empty())
    return mine.same_gpu_refusal;
  if (device == nullptr || !device->may_reach(theirs.device))
    return "one of their GPUs can't read the other's memory";
  try {
    device->close_memory(device->open_memory(theirs.memory));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::vector<std::byte> encode_ipc_hello(const IpcHello& hello) {
  ByteWriter out;
  out.put(kGreetingMagic);
  out.put_text(text_of_bytes(hello.device));
  out.put_text(text_of_bytes(hello.memory.bytes));
  for (const std::string* text : {&hello.boot, &hello.refusal}) {
    out.put(static_cast<std::uint16_t>(cut_text(*text).size()));
    out.put_text(cut_text(*text));
  }
  out.pad_to(kGreetingAlignment);
  return out.take();
}

IpcHello decode_ipc_hello(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  if (in.take<std::uint32_t>() != kGreetingMagic)
    throw LinkError("greeting of a GPU: it begins with another number");
  IpcHello hello;
  take_array(in, hello.device);
  take_array(in, hello.memory.bytes);
  hello.boot = take_short_text(in);
  hello.refusal = take_short_text(in);
  if (in.left() >= kGreetingAlignment || bytes.size() % kGreetingAlignment != 0)
    throw LinkError("greeting of a GPU in {} bytes", bytes.size());
  in.take_zeros(in.left());
  return hello;
}

IpcAgreement greet_over(const Link& link, const IpcHello& mine,
                        IpcDevice* device) {
  link.sender->send(greeting_message(encode_ipc_hello(mine)));
  const IpcHello theirs = next_hello(*link.receiver);
  // Both ends say what they found: one may see what the other doesn't.
  IpcHello answer = mine;
  answer.refusal = why_no_ipc(mine, theirs, device);
  link.sender->send(greeting_message(encode_ipc_hello(answer)));
  const IpcHello their_answer = next_hello(*link.receiver);
  if (answer.refusal.empty() && their_answer.refusal.empty())
    return {.peer = theirs.device};
  return {.why_not = std::string(cut_text(
              answer.refusal.empty() ? their_answer.refusal : answer.refusal))};
}

}  // namespace sluice
