#pragma once

#include <span>

#include "lib/boundaries/head.h"

namespace sluice {

/// A new head is one source file and one row. No file includes another head's.
std::span<const HeadRow> heads();

}  // namespace sluice
