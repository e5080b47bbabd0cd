#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/messages/channel.h"
#include "lib/replicas/centre.h"

namespace sluice {

/// The way of one replica in the process of the centre. One that is destroyed
/// before it has finished leaves the others alone (Centre::leave()).
std::unique_ptr<CentreLink> link_to_centre(std::shared_ptr<Centre> centre,
                                           int member);

/// The replicas of a block in one process, and their centre; index r-1. Each
/// may be used by a thread of its own. `name`: "block 2".
std::vector<std::unique_ptr<CentreLink>> memory_centre(int members,
                                                       Deadline deadline,
                                                       const std::string& name);

}  // namespace sluice
