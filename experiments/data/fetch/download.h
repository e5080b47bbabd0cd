#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sluice {

/// Called with the bytes of the file that are here, and those of all of it.
using DownloadProgress = std::function<void(std::int64_t, std::int64_t)>;

/// Gets `url` (http or https), which has `bytes`, into the file `path`. What is
/// there already is taken for its start: the rest is asked for, or all of it
/// when the server can't do that. Throws UserError, in one line, when the
/// server or the network fails, another process is at it, or the file can't be
/// written; what has come by then stays in the file.
void download(const std::string& url, const std::string& path,
              std::int64_t bytes, const DownloadProgress& progress);

}  // namespace sluice
