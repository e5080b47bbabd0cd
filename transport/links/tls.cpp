#include "transport/links/tls.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <boost/asio/error.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <openssl/ssl.h>

#include "lib/base/error.h"
#include "transport/links/tcp.h"
#include "transport/wire/completion.h"

namespace sluice {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;

// Each write of Asio's ssl::stream makes a record, and a system call, of one
// buffer at most: so small ones are put together.
constexpr std::size_t kCollected = std::size_t{64} << 10;

// Completion condition of a whole transfer, more at once than Asio's own 64
// KiB. `moved` (may be null) is called when bytes did.
auto all_of_it(const Stream::MoveCallback* moved) {
  return [moved](const boost::system::error_code& error, std::size_t) {
    if (moved != nullptr) (*moved)();
    return error ? 0 : kCollected;
  };
}

// The peers have one key in common, so its name tells nothing.
constexpr std::string_view kKeyName = "sluice";
constexpr std::array<unsigned char, 2> kAes128GcmSha256 = {0x13, 0x01};

// Index at which an SSL has a pointer to its key.
int key_index() {
  static const int index =
      ::SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// A session that both sides know already, as TLS 1.3 takes it. The caller owns
// it; nullptr when OpenSSL has no memory.
SSL_SESSION* session_of(SSL* connection) {
  const auto* key = static_cast<const Secret::Bytes*>(
      ::SSL_get_ex_data(connection, key_index()));
  const SSL_CIPHER* cipher =
      ::SSL_CIPHER_find(connection, kAes128GcmSha256.data());
  SSL_SESSION* session = ::SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (::SSL_SESSION_set1_master_key(
          session, reinterpret_cast<const unsigned char*>(key->data()),
          key->size()) == 1 &&
      ::SSL_SESSION_set_cipher(session, cipher) == 1 &&
      ::SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  ::SSL_SESSION_free(session);
  return nullptr;
}

int offer_session(SSL* connection, const EVP_MD*, const unsigned char** name,
                  std::size_t* length, SSL_SESSION** session) {
  *name = reinterpret_cast<const unsigned char*>(kKeyName.data());
  *length = kKeyName.size();
  *session = session_of(connection);
  return *session != nullptr ? 1 : 0;
}

int find_session(SSL* connection, const unsigned char* name, std::size_t length,
                 SSL_SESSION** session) {
  const bool ours =
      std::string_view(reinterpret_cast<const char*>(name), length) == kKeyName;
  *session = ours ? session_of(connection) : nullptr;
  return 1;  // without a session, the handshake ends for want of a certificate
}

ssl::context context_of(Side side) {
  ssl::context context(ssl::context::tlsv13);
  SSL_CTX* native = context.native_handle();
  const int done = ::SSL_CTX_set_ciphersuites(native, "TLS_AES_128_GCM_SHA256");
  SLUICE_CHECK(done == 1, "OpenSSL has no TLS_AES_128_GCM_SHA256");
  ::SSL_CTX_set_num_tickets(native, 0);
  ::SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  if (side == Side::caller) {
    // No certificate is trusted: a peer that shows one is refused.
    context.set_verify_mode(ssl::verify_peer);
    ::SSL_CTX_set_psk_use_session_callback(native, offer_session);
  } else {
    ::SSL_CTX_set_psk_find_session_callback(native, find_session);
  }
  return context;
}

}  // namespace

Tls::Tls(Socket& socket, Side side, const Secret& secret,
         std::uint64_t bytes_per_key)
    : side_(side),
      key_(secret.key_for("sluice tls 1.3")),
      bytes_per_key_(bytes_per_key),
      context_(context_of(side)),
      stream_(socket, context_) {
  ::SSL_set_ex_data(stream_.native_handle(), key_index(),
                    const_cast<Secret::Bytes*>(&key_));
  collected_.reserve(kCollected);
}

asio::awaitable<void> Tls::handshake() {
  const auto [error] = co_await stream_.async_handshake(
      side_ == Side::caller ? ssl::stream_base::client
                            : ssl::stream_base::server,
      kResult);
  if (error == asio::error::eof || error == ssl::error::stream_truncated) {
    throw PeerGoneError("no TLS connection was made: it is gone");
  }
  if (error) {
    throw LinkError(
        "no TLS connection was made: {}; it does not speak TLS here, or does "
        "not hold this run's secret",
        error.message());
  }
  if (::SSL_session_reused(stream_.native_handle()) != 1) {
    throw LinkError("a TLS connection was made without this run's secret");
  }
}

asio::awaitable<void> Tls::read(std::span<const asio::mutable_buffer> buffers,
                                const Stream::MoveCallback* moved) {
  const auto [error, bytes] =
      co_await asio::async_read(stream_, buffers, all_of_it(moved), kResult);
  check_peer(error);
}

asio::awaitable<void> Tls::write(std::span<const asio::const_buffer> buffers,
                                 const Stream::MoveCallback* moved) {
  for (asio::const_buffer buffer : buffers) {
    while (buffer.size() > 0) {
      const std::size_t count =
          std::min(buffer.size(), kCollected - collected_.size());
      const auto* begin = static_cast<const std::byte*>(buffer.data());
      collected_.insert(collected_.end(), begin, begin + count);
      buffer += count;
      if (collected_.size() == kCollected) co_await write_collected(moved);
    }
  }
  if (!collected_.empty()) co_await write_collected(moved);
}

asio::awaitable<void> Tls::write_collected(const Stream::MoveCallback* moved) {
  bytes_of_key_ += collected_.size();
  if (bytes_of_key_ > bytes_per_key_) {
    ::SSL_key_update(stream_.native_handle(), SSL_KEY_UPDATE_NOT_REQUESTED);
    bytes_of_key_ = collected_.size();
  }
  const auto [error, bytes] = co_await asio::async_write(
      stream_, asio::buffer(collected_), all_of_it(moved), kResult);
  collected_.clear();
  check_peer(error);
}

Transport tls_transport() {
  return {.listen =
              [](asio::io_context& io, const Place& place) {
                return listen_over_tcp(io, place, PeerHosts::any_host);
              },
          .connect =
              [](std::string address) {
                return connect_over_tcp(std::move(address),
                                        PeerHosts::any_host);
              },
          .open = open_link,
          .encrypted = true,
          .reconnects = true};
}

}  // namespace sluice
