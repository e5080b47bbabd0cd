#pragma once

#include <memory>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/replicas/group.h"

namespace sluice {

/// The replicas of a block in one process; index r-1. Each may be used by a
/// thread of its own; one that is destroyed is gone. `name` says in errors
/// whose replicas they are ("block 2").
std::vector<std::unique_ptr<Group>> memory_group(int members, Deadline deadline,
                                                 const std::string& name);

}  // namespace sluice
