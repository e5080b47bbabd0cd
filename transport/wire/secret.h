#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// A secret that only the processes of one run know: a peer that can't prove
/// that it has it is no member of the run. Never put it on a command line or in
/// a log: other users can read those. A value; its memory is wiped at the end.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;
  using Bytes = std::array<std::byte, kBytes>;

  /// No secret at all; functions that need one refuse it.
  Secret() = default;
  explicit Secret(const Bytes& bytes) : bytes_(bytes), empty_(false) {}
  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  bool empty() const { return empty_; }
  /// A key for one purpose, so that none is used for two: HMAC-SHA256 of the
  /// purpose. Throws InternalError when empty.
  Bytes key_for(std::string_view purpose) const;
  /// 64 hexadecimal digits, for a pipe or a file of mode 0600.
  std::string text() const;

 private:
  Bytes bytes_ = {};
  bool empty_ = true;
};

/// A secret from the system's random numbers. Throws InternalError where there
/// are none.
Secret make_secret();

/// The inverse of Secret::text(); a line end after it is allowed. Throws
/// UserError, which doesn't repeat the text; `where` says what was read.
Secret parse_secret(std::string_view text, std::string_view where);

/// Throws UserError unless the file is ours and no other user may read it.
Secret read_secret(const std::filesystem::path& file);

/// HMAC-SHA256 of a text under a secret.
Secret::Bytes hmac(std::span<const std::byte> key,
                   std::span<const std::byte> text);

/// Fills `bytes` with random ones. Throws InternalError.
void fill_randomly(std::span<std::byte> bytes);

/// Whether two texts are equal, in a time that doesn't depend on what they are.
bool same_in_constant_time(std::span<const std::byte> a,
                           std::span<const std::byte> b);

}  // namespace sluice
