#include "transport/meeting/transports.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "transport/links/io_thread.h"

namespace sluice::transports_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Transports, AreFoundByName) {
  EXPECT_NE(transport_of("unix").listen, nullptr);
}

TEST(Transports, TransportsOfUnknownNameAreRefusedWithThoseThatThereAre) {
  EXPECT_THAT([] { transport_of("unyx"); },
              ThrowsMessage<UserError>(HasSubstr("unix")));
}

TEST(UnixTransport, SaysWhenAPathIsTooLong) {
  IoThread io;
  EXPECT_THAT(
      [&] {
        transport_of("unix").listen(
            io.context(), {.folder = std::string(120, 'x'), .name = "a"});
      },
      ThrowsMessage<UserError>(HasSubstr("TMPDIR")));
}

TEST(UnixTransport, HasNoUseForAHost) {
  IoThread io;
  EXPECT_THAT(
      [&] {
        transport_of("unix").listen(
            io.context(), {.folder = "/tmp", .name = "a", .host = "127.0.0.1"});
      },
      ThrowsMessage<UserError>(HasSubstr("'127.0.0.1'")));
}

}  // namespace sluice::transports_test
