#pragma once

#include <span>
#include <string_view>

#include "lib/base/table.h"
#include "transport/links/transport.h"

namespace sluice {

using TransportRow = Row<Transport>;

/// A new transport is one source file and one row.
std::span<const TransportRow> transports();
/// Throws UserError for a name that is in no row.
const Transport& transport_of(std::string_view name);

}  // namespace sluice
