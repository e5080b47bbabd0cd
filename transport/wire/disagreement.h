#pragma once

#include "lib/base/error.h"

namespace sluice {

/// Two processes of one run were started with different things, or are of
/// builds that can't talk to each other: both say the same of it.
class Disagreement final : public UserError {
 public:
  using UserError::UserError;
};

}  // namespace sluice
