#pragma once

#include <memory>

#include "lib/blocks/source.h"

namespace sluice {

/// One epoch of `first`, then one of `second`, and so on.
std::unique_ptr<Source> chained(std::unique_ptr<Source> first,
                                std::unique_ptr<Source> second);

}  // namespace sluice
