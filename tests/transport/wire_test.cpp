// The bytes on the wire, so that the format can't change unnoticed: those of
// the example in transport/README.md, and a stream read by another program.
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/transport/links_under_test.h"
#include "transport/links/connection.h"
#include "transport/wire/frame.h"
#include "transport/wire/handshake.h"

namespace sluice::wire_test {

using namespace std::chrono_literals;

// float32 1, 2, 3 repeated for two samples, as an expanded gradient is.
Message example() {
  Message message = message_of({.name = "h",
                                .sizes = {2, 3},
                                .strides = {0, 1},
                                .buffer = allocate_buffer(12)});
  message.kind = MessageKind::gradient;
  message.batch = 7;
  message.turn = 8;
  message.weight_version = 7;
  const std::array<float, 3> values{1, 2, 3};
  std::memcpy(message.tensors[0].buffer.data, values.data(), 12);
  return message;
}

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{:02x}", std::to_integer<int>(bytes[i]));
    if (i % 4 == 3) text += i % 16 == 15 ? '\n' : ' ';
  }
  return text;
}

// What block 1 sends in the handshake with block 2.
std::vector<std::byte> greeting_of_block_1() {
  const Versions versions{kWireVersion, kWireVersion};
  Handshake caller(Side::caller, test_secret(),
                   {.versions = versions, .from = 1, .to = 2});
  Handshake called(Side::called, test_secret(),
                   {.versions = versions, .from = 2});
  std::vector<std::byte> sent = caller.output();
  called.take(sent);
  caller.take(called.output());
  const std::vector<std::byte> proof = caller.output();
  sent.insert(sent.end(), proof.begin(), proof.end());
  return sent;
}

// What a link writes to its socket for that message and its end.
std::string written_by_a_link() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  LinkOptions options = test_options(1, 60s);
  options.checksum = true;
  options.heartbeat = 60s;  // none among them
  IoThread io;
  Link link =
      open_link(io,
                Stream(Socket(io.context(),
                              boost::asio::generic::stream_protocol(AF_UNIX, 0),
                              ends[0])),
                options, greeting_of_block_1());
  link.sender->send(example());
  link.sender->close();
  std::string bytes(96 + 64 + 128 + 64 + 64, '\0');
  EXPECT_EQ(::recv(ends[1], bytes.data(), bytes.size(), MSG_WAITALL),
            static_cast<ssize_t>(bytes.size()));
  ::close(ends[1]);
  return bytes;
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  std::array<char, 256> line = {};
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    text += line.data();
  }
  return text;
}

TEST(WireFormat, HasTheBytesOfTheExample) {
  std::ifstream readme(SLUICE_TEST_FOLDER "/../transport/README.md");
  std::stringstream text;
  text << readme.rdbuf();
  const std::string bytes = hex(encode_message(example(), 1, FrameLimits{}));
  EXPECT_NE(text.str().find(bytes), std::string::npos) << bytes;
}

TEST(WireFormat, IsReadByAProgramThatKnowsOnlyTheTables) {
  std::string path = std::filesystem::temp_directory_path() / "slc-XXXXXX";
  const int file = ::mkstemp(path.data());
  ASSERT_GE(file, 0);
  const std::string bytes = written_by_a_link();
  EXPECT_EQ(::write(file, bytes.data(), bytes.size()),
            static_cast<ssize_t>(bytes.size()));
  ::close(file);
  EXPECT_EQ(output_of(SLUICE_TEST_PYTHON " " SLUICE_TEST_FOLDER
                                         "/transport/read_frames.py " +
                      path),
            "greeting 1 to 2, side 1, versions 4 to 4\n"
            "data 1: gradient batch 7 turn 8 weights 7\n"
            "  h float32 [2, 3] strides [0, 1]: 0000803f0000004000004040\n"
            "bye\n");
  std::filesystem::remove(path);
}

}  // namespace sluice::wire_test
