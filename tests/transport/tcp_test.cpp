#include "transport/links/tcp.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "tests/transport/test_secret.h"
#include "transport/links/io_thread.h"
#include "transport/meeting/meeting.h"

namespace sluice::tcp_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

TEST(TcpAddress, IsHostAndPort) {
  EXPECT_EQ(parse_tcp_address("10.0.0.1:4000"), (TcpAddress{"10.0.0.1", 4000}));
  EXPECT_EQ(parse_tcp_address("node-1:4000"), (TcpAddress{"node-1", 4000}));
}

TEST(TcpAddress, MayLackThePort) {
  EXPECT_EQ(parse_tcp_address("10.0.0.1"), (TcpAddress{"10.0.0.1", 0}));
  EXPECT_EQ(parse_tcp_address("::1"), (TcpAddress{"::1", 0}));
  EXPECT_EQ(parse_tcp_address("[::1]"), (TcpAddress{"::1", 0}));
}

TEST(TcpAddress, TcpAddressOfIpv6StandsInBrackets) {
  EXPECT_EQ(parse_tcp_address("[fe80::1]:80"), (TcpAddress{"fe80::1", 80}));
}

TEST(TcpAddress, ThatIsNoneIsRefused) {
  for (const char* text : {"", ":80", "a:", "a:65536", "a:8x", "[::1", "[]:80",
                           "[::1]x", "[::1]:"}) {
    EXPECT_THROW(parse_tcp_address(text), LinkError) << text;
  }
}

TEST(TcpTransport, ListensOnLoopbackUnlessToldOtherwise) {
  IoThread io;
  const Listener listener = transport_of("tcp").listen(io.context(), {});
  EXPECT_THAT(listener.address, StartsWith("127.0.0.1:"));
}

TEST(TcpTransport, ListensOnLoopbackWhereTheLauncherDoes) {
  IoThread io;
  const Listener listener =
      transport_of("tcp").listen(io.context(), {.launcher = "127.0.0.1:9"});
  EXPECT_THAT(listener.address, StartsWith("127.0.0.1:"));
}

TEST(TcpTransport, ListensOnIpv6Too) {
  IoThread io;
  const Listener listener =
      transport_of("tcp").listen(io.context(), {.host = "::1"});
  EXPECT_THAT(listener.address, StartsWith("[::1]:"));
}

TEST(TcpTransport, RefusesAnAddressOfOtherHostsAndSaysWhy) {
  IoThread io;
  EXPECT_THAT(
      [&] { transport_of("tcp").listen(io.context(), {.host = "192.0.2.1"}); },
      ThrowsMessage<UserError>(AllOf(HasSubstr("'192.0.2.1'"),
                                     HasSubstr("not be encrypted"),
                                     HasSubstr("use transport 'tls'"))));
}

TEST(TcpTransport, RefusesEveryAddressAtOnce) {
  IoThread io;
  for (const char* all : {"0.0.0.0", "::"}) {
    EXPECT_THAT(
        [&] { transport_of("tcp").listen(io.context(), {.host = all}); },
        ThrowsMessage<UserError>(HasSubstr("name the one by which")));
  }
}

// A host that answers no call: its queue is full, as if it were out of reach.
class SilentHost {
 public:
  SilentHost() {
    const auto listener = new_socket();
    sockaddr_in address{.sin_family = AF_INET,
                        .sin_port = 0,
                        .sin_addr = {htonl(INADDR_LOOPBACK)},
                        .sin_zero = {}};
    socklen_t size = sizeof address;
    auto* const place = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener, place, size), 0);
    EXPECT_EQ(::listen(listener, 0), 0);
    EXPECT_EQ(::getsockname(listener, place, &size), 0);
    for (int i = 0; i < 4; ++i) ::connect(new_socket(), place, size);
    address_ = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  }
  ~SilentHost() {
    for (const int socket : sockets_) ::close(socket);
  }
  SilentHost(const SilentHost&) = delete;
  SilentHost& operator=(const SilentHost&) = delete;

  const std::string& address() const { return address_; }

 private:
  int new_socket() {
    sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    return sockets_.back();
  }

  std::vector<int> sockets_;
  std::string address_;
};

TEST(WaitForListener, GivesUpInTimeWhereNobodyAnswers) {
  const SilentHost host;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_THAT([&] { wait_for_listener(host.address(), 200ms); },
              ThrowsMessage<LinkError>(HasSubstr("timed out")));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 20s);
}

TEST(WaitForListener, SaysWhyNobodyListens) {
  EXPECT_THAT(
      [] { wait_for_listener("127.0.0.1:1", 1ms); },
      ThrowsMessage<LinkError>(AllOf(
          HasSubstr("nobody listens at '127.0.0.1:1'"), HasSubstr("refused"))));
}

TEST(WaitForListener, EndsWhereOneIs) {
  IoThread io;
  const Listener listener = transport_of("tcp").listen(io.context(), {});
  EXPECT_NO_THROW(wait_for_listener(listener.address, 60s));
}

// The two ends of a connection between meetings at `host`.
class TcpConnection {
 public:
  explicit TcpConnection(const std::string& host) {
    caller_.call(called_.listen({.host = host}), {.from = 1, .to = 2});
    const auto until = std::chrono::steady_clock::now() + 60s;
    AcceptedPeer accepted = called_.wait_for(1, until);
    called.emplace(::dup(accepted.stream.socket().native_handle()));
    called_.greet(std::move(accepted.stream), {.from = 2, .to = 1});
    caller.emplace(
        ::dup(caller_.wait_for(2, until).stream.socket().native_handle()));
  }
  ~TcpConnection() {
    ::close(*called);
    ::close(*caller);
  }

  std::optional<int> called;
  std::optional<int> caller;

 private:
  IoThread io_;
  Meeting called_{io_,
                  transport_of("tcp"),
                  {.identity = {.secret = test_secret(), .from = 2}}};
  Meeting caller_{io_,
                  transport_of("tcp"),
                  {.identity = {.secret = test_secret(), .from = 1}}};
};

int tcp_option(int socket, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(socket, IPPROTO_TCP, option, &value, &size);
  return value;
}

TEST(TcpConnection, TcpConnectionOfIpv6IsMade) {
  EXPECT_NO_THROW(TcpConnection("::1"));
}

TEST(TcpConnection, ToANameIsMade) {
  EXPECT_NO_THROW(TcpConnection("localhost"));
}

TEST(TcpConnection, SendsSmallFramesAtOnce) {
  const TcpConnection connection("127.0.0.1");
  EXPECT_NE(tcp_option(*connection.called, TCP_NODELAY), 0);
  EXPECT_NE(tcp_option(*connection.caller, TCP_NODELAY), 0);
}

// A user timeout would end a connection to a peer that is alive and slow.
TEST(TcpConnection, HasNoUserTimeout) {
  const TcpConnection connection("127.0.0.1");
  EXPECT_EQ(tcp_option(*connection.called, TCP_USER_TIMEOUT), 0);
  EXPECT_EQ(tcp_option(*connection.caller, TCP_USER_TIMEOUT), 0);
}

std::string failure_of_call(const std::string& address) {
  IoThread io;
  Meeting meeting(io, transport_of("tcp"),
                  {.identity = {.secret = test_secret()}});
  meeting.call(address, {.from = 1, .to = 2});
  try {
    meeting.wait_for(2, std::chrono::steady_clock::now() + 60s);
  } catch (const LinkError& error) {
    return error.what();
  }
  return "";
}

TEST(TcpCall, ToAnotherHostIsRefused) {
  EXPECT_THAT(failure_of_call("192.0.2.1:80"),
              HasSubstr("use transport 'tls'"));
}

TEST(TcpCall, ToNobodySaysSo) {
  EXPECT_THAT(failure_of_call("127.0.0.1:1"),
              HasSubstr("can't connect to '127.0.0.1:1'"));
}

}  // namespace sluice::tcp_test
