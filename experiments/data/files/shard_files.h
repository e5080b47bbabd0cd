#pragma once

#include <string>
#include <vector>

namespace sluice {

/// The paths of the files of a folder that names stand for, in the order of the
/// names: a file itself, or the same with ".gz"; with *, ? or [...] those that
/// match, sorted by the bytes of their paths; with a range as in
/// "part-{000..146}.tar" one for each number, of as many digits as the first.
/// Hidden files match nothing. Throws UserError where a name stands for none,
/// or a file of a range is missing.
std::vector<std::string> find_shards(const std::string& folder,
                                     const std::vector<std::string>& names);

}  // namespace sluice
