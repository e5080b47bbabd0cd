#pragma once

#include <string>

#include "lib/base/config.h"
#include "lib/replicas/replica_policy.h"

namespace sluice {

/// Reads the key `every` into ReplicaExchange::every, or a list into
/// ReplicaKind::every_of: dynamic local updates (Liu et al. 2024,
/// arXiv:2401.09135). what: the meaning of a number, for its description.
void describe_every(Fields& fields, ReplicaKind& kind, const std::string& what);

}  // namespace sluice
