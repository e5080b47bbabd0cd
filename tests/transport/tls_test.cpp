// A process without the run's secret can neither read nor take part.
#include "transport/links/tls.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include "lib/base/error.h"
#include "tests/transport/fault_proxy.h"
#include "tests/transport/links_under_test.h"
#include "transport/meeting/meeting.h"

namespace sluice::tls_test {

namespace asio = boost::asio;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
using namespace std::chrono_literals;

std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + 60s;
}

MeetingOptions options_of(std::uint32_t block,
                          const Secret& secret = test_secret()) {
  return {.identity = {.secret = secret, .from = block}};
}

void expect_failed_call(Meeting& caller, const std::string& why) {
  EXPECT_THAT([&] { caller.wait_for(2, soon()); },
              ThrowsMessage<LinkError>(HasSubstr(why)));
}

void expect_refused(Meeting& called, const std::string& why) {
  EXPECT_THAT(
      [&] { called.wait_for(1, std::chrono::steady_clock::now() + 50ms); },
      ThrowsMessage<LinkError>(
          AllOf(HasSubstr("1 connection was refused"), HasSubstr(why))));
}

TEST(TlsMeeting, RefusesAnotherSecretOnBothSides) {
  IoThread io;
  Meeting called(io, transport_of("tls"), options_of(2));
  Meeting caller(io, transport_of("tls"), options_of(1, other_secret()));
  caller.call(called.listen({}), {.from = 1, .to = 2});
  expect_failed_call(caller, "no TLS connection was made");
  expect_refused(called, "no TLS connection was made");
}

TEST(TlsMeeting, RefusesACallerWithoutTls) {
  IoThread io;
  Meeting called(io, transport_of("tls"), options_of(2));
  Meeting caller(io, transport_of("tcp"), options_of(1));
  caller.call(called.listen({}), {.from = 1, .to = 2});
  expect_failed_call(caller, "block 1 called block 2");
  expect_refused(called, "no TLS connection was made");
}

TEST(TlsMeeting, RefusesACalledWithoutTls) {
  IoThread io;
  Meeting called(io, transport_of("tcp"), options_of(2));
  Meeting caller(io, transport_of("tls"), options_of(1));
  caller.call(called.listen({}), {.from = 1, .to = 2});
  expect_failed_call(caller, "no TLS connection was made");
  expect_refused(called, "no greeting of Sluice");
}

TEST(TlsTransport, MayListenWhereOtherHostsReachIt) {
  IoThread io;
  EXPECT_THAT(  // an address of no machine
      [&] { transport_of("tls").listen(io.context(), {.host = "192.0.2.1"}); },
      ThrowsMessage<UserError>(AllOf(HasSubstr("can't listen at '192.0.2.1'"),
                                     Not(HasSubstr("encrypted")))));
}

// The two ends of a TCP connection.
struct Pair {
  IoThread io = {};
  std::optional<Stream> caller = std::nullopt;
  std::optional<Stream> called = std::nullopt;

  Pair() {
    asio::ip::tcp::acceptor acceptor(io.context(),
                                     {asio::ip::address_v4::loopback(), 0});
    asio::ip::tcp::socket socket(io.context());
    socket.connect(acceptor.local_endpoint());
    caller.emplace(Socket(std::move(socket)));
    called.emplace(Socket(acceptor.accept()));
  }
};

// Runs it on the I/O thread; what it threw, or "".
std::string outcome(IoThread& io, asio::awaitable<void> work) {
  std::promise<std::string> text;
  asio::co_spawn(io.context(), std::move(work), [&](std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
      text.set_value("");
    } catch (const std::exception& found) {
      text.set_value(found.what());
    }
  });
  return text.get_future().get();
}

struct FreeKey {
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { ::X509_free(certificate); }
};

// What somebody in between would show: a certificate that it made itself.
asio::ssl::context context_with_certificate() {
  const std::unique_ptr<EVP_PKEY, FreeKey> key(EVP_RSA_gen(2048));
  const std::unique_ptr<X509, FreeKey> own(::X509_new());
  ::X509_gmtime_adj(X509_getm_notBefore(own.get()), 0);
  ::X509_gmtime_adj(X509_getm_notAfter(own.get()), 3600);
  ::X509_set_pubkey(own.get(), key.get());
  ::X509_sign(own.get(), key.get(), ::EVP_sha256());
  asio::ssl::context context(asio::ssl::context::tlsv13);
  ::SSL_CTX_use_certificate(context.native_handle(), own.get());
  ::SSL_CTX_use_PrivateKey(context.native_handle(), key.get());
  return context;
}

TEST(TlsStream, RefusesACertificateInsteadOfTheSecret) {
  Pair pair;
  asio::ssl::context context = context_with_certificate();
  asio::ssl::stream<Socket&> between(pair.called->socket(), context);
  std::promise<void> over;
  asio::post(pair.io.context(), [&] {
    between.async_handshake(asio::ssl::stream_base::server,
                            [&](auto) { over.set_value(); });
  });
  EXPECT_THAT(
      outcome(pair.io, pair.caller->encrypt(Side::caller, test_secret())),
      HasSubstr("no TLS connection was made"));
  pair.caller.reset();
  over.get_future().wait();
}

asio::awaitable<void> write_all(Stream& stream, Side side,
                                std::span<const std::byte> bytes) {
  co_await stream.encrypt(side, test_secret(), 100'000);
  std::array<asio::const_buffer, 1> parts{
      asio::buffer(bytes.data(), bytes.size())};
  co_await stream.write(parts);
}

asio::awaitable<void> read_all(Stream& stream, Side side,
                               std::span<std::byte> bytes) {
  co_await stream.encrypt(side, test_secret());
  std::array<asio::mutable_buffer, 1> parts{
      asio::buffer(bytes.data(), bytes.size())};
  co_await stream.read(parts);
}

TEST(TlsStream, CarriesOnWithNewKeys) {
  Pair pair;
  const TensorView sent = counting_tensor(DType::uint8, {1 << 20}, {1});
  std::vector<std::byte> received(1 << 20);
  asio::co_spawn(pair.io.context(),
                 write_all(*pair.caller, Side::caller, bytes_of(sent)),
                 asio::detached);
  EXPECT_EQ(outcome(pair.io, read_all(*pair.called, Side::called, received)),
            "");
  EXPECT_TRUE(std::ranges::equal(received, bytes_of(sent)));
}

// All that passed between two ends that exchanged `text`.
std::string passed(const char* transport, const std::string& text) {
  IoThread io;
  Meeting called(io, transport_of(transport), options_of(2));
  Meeting caller(io, transport_of(transport), options_of(1));
  FaultProxy proxy(transport, {}, called.listen({}));
  caller.call(proxy.address(), {.from = 1, .to = 2});
  Link upper =
      open_link(io, called.wait_for(1, soon()).stream, test_options(1, 60s),
                encode_hello({.from = 2, .to = 1}));
  Link lower =
      open_link(io, caller.wait_for(2, soon()).stream, test_options(1, 60s));
  Message message{.tensors = {{.name = "h",
                               .dtype = DType::uint8,
                               .sizes = {static_cast<long>(text.size())},
                               .strides = {1},
                               .buffer = allocate_buffer(text.size())}}};
  std::memcpy(message.tensors[0].buffer.data, text.data(), text.size());
  lower.sender->send(message);
  EXPECT_TRUE(
      same(upper.receiver->receive()->tensors.at(0), message.tensors[0]));
  return proxy.passed();
}

TEST(TlsLink, ShowsNobodyWhatItCarries) {
  const std::string text = "these are the weights of a network";
  EXPECT_THAT(passed("tls", text), Not(HasSubstr(text)));
  EXPECT_THAT(passed("tcp", text), HasSubstr(text));
}

TEST(TlsLink, ShowsNobodyTheGreeting) {
  EXPECT_THAT(passed("tls", "x"), Not(HasSubstr("SLH")));
  EXPECT_THAT(passed("tcp", "x"), HasSubstr("SLH"));
}

}  // namespace sluice::tls_test
