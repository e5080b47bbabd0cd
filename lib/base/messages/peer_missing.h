#pragma once

#include <cstdint>
#include <string>

#include "lib/base/error.h"

namespace sluice {

/// A block's worker did not come to where all meet.
class PeerMissingError : public LinkError {
 public:
  PeerMissingError(std::uint32_t block, const std::string& text)
      : LinkError("{}", text), block_(block) {}
  /// 0: the launcher.
  std::uint32_t block() const { return block_; }

 private:
  std::uint32_t block_;
};

}  // namespace sluice
