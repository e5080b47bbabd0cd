#pragma once

#include <string>

namespace sluice {

/// A shared library with a plug-in.
struct PluginFile {
  std::string path = {};    ///< absolute
  std::string sha256 = {};  ///< of the file; empty: whichever is there
};

/// Loads the library into this process, unless one with the same bytes has been
/// loaded already, and adds what it registers to the tables. Returns it with
/// the hash of what was loaded. It stays until the process ends: rows, types
/// and code of it may be anywhere. Any thread may call this, before or between
/// runs.
///
/// Throws UserError, a line with the path and the remedy, for a file that is
/// missing, no plug-in, built against another Sluice, LibTorch or C++ ABI (the
/// stamp in the file is compared before anything of it is loaded or called),
/// that has another hash than the one asked for or than the one that was loaded
/// from there before, that can't be loaded, whose registration throws, or that
/// registers a name which is taken; then nothing of it is in a table.
PluginFile load_plugin(const PluginFile& file);

}  // namespace sluice
