#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "lib/base/buffer.h"
#include "lib/base/messages/memory_channel.h"
#include "tests/transport/test_secret.h"
#include "transport/links/connection.h"
#include "transport/links/hello.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/meeting.h"
#include "transport/meeting/transports.h"
#include "transport/shared/shared_memory.h"

namespace sluice {

/// Both ends of a link, with the I/O threads of the two processes that they
/// would be in (none for a link in memory). The links go first.
struct Ends {
  std::unique_ptr<IoThread> lower_io = nullptr;
  std::unique_ptr<IoThread> upper_io = nullptr;
  Link lower = {};
  Link upper = {};
};

inline Ends memory_ends(std::size_t capacity, Deadline deadline) {
  auto [lower, upper] = memory_link(capacity, capacity, deadline);
  return {.lower = std::move(lower), .upper = std::move(upper)};
}

/// Two connected streams on the I/O threads of their ends.
inline std::pair<Stream, Stream> socket_pair(IoThread& lower, IoThread& upper) {
  boost::asio::local::stream_protocol::socket a(lower.context());
  boost::asio::local::stream_protocol::socket b(upper.context());
  boost::asio::local::connect_pair(a, b);
  return {Stream(Socket(std::move(a))), Stream(Socket(std::move(b)))};
}

inline LinkOptions test_options(std::size_t capacity, Deadline deadline) {
  return {.here = "block 1",
          .there = "block 2",
          .capacity_send = capacity,
          .capacity_receive = capacity,
          .deadline = deadline};
}

/// Both ends of a link that `open` makes of a socket.
inline Ends ends_of(decltype(Transport::open) open,
                    const LinkOptions& options) {
  Ends ends{.lower_io = std::make_unique<IoThread>(),
            .upper_io = std::make_unique<IoThread>()};
  auto [a, b] = socket_pair(*ends.lower_io, *ends.upper_io);
  ends.lower = open(*ends.lower_io, std::move(a), options, {});
  ends.upper = open(*ends.upper_io, std::move(b), options, {});
  return ends;
}

/// A folder of mode 0700 for sockets, removed at its end.
class TestFolder {
 public:
  TestFolder() {
    path_ = std::filesystem::temp_directory_path() / "slc-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A link over a row of transports(), made as the processes of a run make it:
/// upper listens, lower calls, both prove themselves and greet.
inline Ends transport_ends(const char* name, std::size_t capacity,
                           Deadline deadline) {
  const TestFolder folder;
  const Transport& transport = transport_of(name);
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  Ends ends{.lower_io = std::make_unique<IoThread>(),
            .upper_io = std::make_unique<IoThread>()};
  Meeting called(*ends.upper_io, transport,
                 {.identity = {.secret = test_secret(), .from = 2}});
  Meeting caller(*ends.lower_io, transport,
                 {.identity = {.secret = test_secret(), .from = 1}});
  const Hello up{.from = 1,
                 .to = 2,
                 .capacity_send = capacity,
                 .capacity_receive = capacity};
  Hello down = up;
  std::swap(down.from, down.to);
  const LinkOptions options = test_options(capacity, deadline);
  caller.call(called.listen({.folder = folder.path(), .name = "a"}), up);
  ends.upper = transport.open(*ends.upper_io, called.wait_for(1, until).stream,
                              options, encode_hello(down));
  ends.lower = transport.open(*ends.lower_io, caller.wait_for(2, until).stream,
                              options, {});
  return ends;
}

inline Ends unix_ends(std::size_t capacity, Deadline deadline) {
  return ends_of(open_link, test_options(capacity, deadline));
}

inline Ends shared_memory_ends(std::size_t capacity, Deadline deadline) {
  return ends_of(open_shared_link, test_options(capacity, deadline));
}

/// A tensor whose bytes are 0, 1, ... 250, 0, 1, ...
inline TensorView counting_tensor(DType dtype, std::vector<std::int64_t> sizes,
                                  std::vector<std::int64_t> strides) {
  const std::size_t bytes = stored_bytes(dtype, sizes, strides);
  TensorView tensor{.name = "h",
                    .dtype = dtype,
                    .sizes = std::move(sizes),
                    .strides = std::move(strides),
                    .buffer = allocate_buffer(bytes)};
  std::byte* const data = tensor.buffer.data;
  std::size_t filled = std::min<std::size_t>(bytes, 251);
  for (std::size_t i = 0; i < filled; ++i) data[i] = static_cast<std::byte>(i);
  // The rest by doubling: sanitizers make a loop over 64 MiB slow.
  while (filled < bytes) {
    const std::size_t count = std::min(filled, bytes - filled);
    std::memcpy(data + filled, data, count);
    filled += count;
  }
  return tensor;
}

inline Message message_of(TensorView tensor) {
  Message message;
  message.tensors.push_back(std::move(tensor));
  return message;
}

inline std::span<const std::byte> bytes_of(const TensorView& tensor) {
  return {tensor.buffer.data, tensor.buffer.bytes};
}

/// Same name, dtype, shape and bits.
inline bool same(const TensorView& a, const TensorView& b) {
  return a.name == b.name && a.dtype == b.dtype && a.sizes == b.sizes &&
         a.strides == b.strides && a.buffer.bytes == b.buffer.bytes &&
         (a.buffer.bytes == 0 ||
          std::memcmp(a.buffer.data, b.buffer.data, a.buffer.bytes) == 0);
}

}  // namespace sluice
