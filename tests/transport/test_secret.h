#pragma once

#include "transport/wire/secret.h"

namespace sluice {

inline Secret secret_of(int value) {
  Secret::Bytes bytes;
  bytes.fill(static_cast<std::byte>(value));
  return Secret(bytes);
}

/// The secret of the tests' runs, and one that is not theirs.
inline Secret test_secret() {
  return secret_of(7);
}
inline Secret other_secret() {
  return secret_of(8);
}

}  // namespace sluice
