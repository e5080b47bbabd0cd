#include "transport/wire/secret.h"

#include <cerrno>
#include <charconv>
#include <system_error>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"

namespace sluice {
namespace {

constexpr std::size_t kDigits = 2 * Secret::kBytes;
constexpr std::string_view kRemedy =
    "make one with 'openssl rand -hex 32', in a file of mode 0600";

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : number_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

void check_private(const struct stat& status, const std::string& path) {
  if (!S_ISREG(status.st_mode)) {
    throw UserError("secret file '{}' is no regular file", path);
  }
  if (status.st_uid != ::geteuid()) {
    throw UserError("secret file '{}' belongs to user {}, not to you ({})",
                    path, status.st_uid, ::geteuid());
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw UserError(
        "secret file '{0}' has mode {1:04o}: others may use it; allowed is "
        "0600: chmod 600 '{0}'",
        path, status.st_mode & 07777U);
  }
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Secret::~Secret() {
  OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

Secret::Bytes Secret::key_for(std::string_view purpose) const {
  SLUICE_CHECK(!empty_, "no secret was given to make the key of '{}'", purpose);
  return hmac(bytes_, bytes_of(purpose));
}

std::string Secret::text() const {
  SLUICE_CHECK(!empty_, "no secret was given");
  std::string digits;
  for (const std::byte byte : bytes_) {
    digits += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return digits;
}

Secret make_secret() {
  Secret::Bytes bytes;
  fill_randomly(bytes);
  const Secret secret(bytes);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return secret;
}

Secret parse_secret(std::string_view text, std::string_view where) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.remove_suffix(1);
  }
  if (text.size() != kDigits) {
    throw UserError(
        "the secret in {} has {} characters instead of {} hexadecimal digits; "
        "{}",
        where, text.size(), kDigits, kRemedy);
  }
  Secret::Bytes bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    unsigned value = 0;
    const auto [end, error] = std::from_chars(digits, digits + 2, value, 16);
    if (error != std::errc() || end != digits + 2) {
      throw UserError(
          "the secret in {} has a character {} that is no hexadecimal digit; "
          "{}",
          where, end - text.data() + 1, kRemedy);
    }
    bytes[i] = static_cast<std::byte>(value);
  }
  const Secret secret(bytes);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return secret;
}

Secret read_secret(const std::filesystem::path& path) {
  const File file(path);
  struct stat status = {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) {
    throw UserError("can't read the secret file '{}': {}; {}", path.string(),
                    errno_text(), kRemedy);
  }
  check_private(status, path.string());
  std::string text(kDigits + 2, '\0');  // more is too much
  const ssize_t count = ::read(file.number(), text.data(), text.size());
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  const Secret secret = parse_secret(text, "'" + path.string() + "'");
  OPENSSL_cleanse(text.data(), text.size());
  return secret;
}

Secret::Bytes hmac(std::span<const std::byte> key,
                   std::span<const std::byte> text) {
  Secret::Bytes result;
  unsigned length = 0;
  const bool done = ::HMAC(::EVP_sha256(), key.data(),
                           static_cast<int>(key.size()), raw(text), text.size(),
                           reinterpret_cast<unsigned char*>(result.data()),
                           &length) != nullptr;
  SLUICE_CHECK(done && length == result.size(), "OpenSSL made no HMAC");
  return result;
}

void fill_randomly(std::span<std::byte> bytes) {
  const int done = ::RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()),
                                static_cast<int>(bytes.size()));
  SLUICE_CHECK(done == 1, "the system gave no random numbers");
}

bool same_in_constant_time(std::span<const std::byte> a,
                           std::span<const std::byte> b) {
  return a.size() == b.size() &&
         ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace sluice
