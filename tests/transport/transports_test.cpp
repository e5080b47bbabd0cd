#include "transport/transports.h"

#include <chrono>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "transport/meeting.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

TEST(Transports, AreFoundByName) {
  EXPECT_NE(transport_of("unix").listen, nullptr);
}

TEST(Transports, OfUnknownNameAreRefusedWithThoseThatThereAre) {
  EXPECT_THAT([] { transport_of("unyx"); },
              ThrowsMessage<UserError>(HasSubstr("unix")));
}

TEST(UnixTransport, SaysWhenAPathIsTooLong) {
  IoThread io;
  EXPECT_THAT(
      [&] {
        transport_of("unix").listen(io.context(), std::string(120, 'x'), "a");
      },
      ThrowsMessage<UserError>(HasSubstr("TMPDIR")));
}

bool closes_on_exec(Socket& socket) {
  return (::fcntl(socket.native_handle(), F_GETFD) & FD_CLOEXEC) != 0;
}

// A child that kept a socket open would hide its owner's death.
TEST(Meeting, MakesSocketsThatNoChildInherits) {
  IoThread io;
  std::string folder = std::filesystem::temp_directory_path() / "slc-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  {
    Meeting called(io, transport_of("unix"));
    Meeting caller(io, transport_of("unix"));
    caller.call(called.listen(folder, "a"), {.from = 1, .to = 2});
    const auto until = std::chrono::steady_clock::now() + 60s;
    Guest one = called.wait_for(1, until);
    EXPECT_TRUE(closes_on_exec(one.socket));
    called.greet(std::move(one.socket), {.from = 2, .to = 1});
    Guest two = caller.wait_for(2, until);
    EXPECT_TRUE(closes_on_exec(two.socket));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sluice
