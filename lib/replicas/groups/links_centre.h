#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/base/memory/account.h"
#include "lib/base/messages/channel.h"
#include "lib/replicas/centre.h"

namespace sluice {

/// The replicas of a block in processes of their own. The centre is in that of
/// replica 1, where each other replica has a thread that serves it. links:
/// index r-1 for replica r; only those from and to replica 1 are used, on these
/// threads where it is `member`. deadline: of each wait in that process; links
/// have their own. `name`: "block 2". memory: the account to which these
/// threads charge what they allocate, if any.
std::unique_ptr<CentreLink> links_centre(
    std::vector<Link> links, int member, Deadline deadline,
    const std::string& name, std::shared_ptr<MemoryAccount> memory = nullptr);

}  // namespace sluice
