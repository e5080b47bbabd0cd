#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "lib/base/config_node.h"

namespace sluice {

/// Folder that relative paths begin at: that of the file which they were
/// written in, or, for the command line, the current one.
std::filesystem::path folder_of(const Origin& origin);

/// Calls `visit` with each text of the config that names a file or folder by a
/// key of its own (data.file, model.file, initial_weights, ...).
void visit_named_paths(ConfigNode& config,
                       const std::function<void(ConfigNode&)>& visit);

/// The config with the files and folders of its own keys (data.file,
/// data.folder, model.file, initial_weights, ...) as absolute paths, where a
/// relative one exists beside the file that names it. Others stay as they are:
/// data are looked for below data.root, the rest in the current folder. Throws
/// UserError where model.file is in neither place.
ConfigNode with_named_paths(ConfigNode config);

}  // namespace sluice
