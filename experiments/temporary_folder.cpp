#include "experiments/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "lib/base/error.h"

namespace sluice {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  path_ = (fs::temp_directory_path() / "sluice-XXXXXX").string();
  if (::mkdtemp(path_.data()) == nullptr)
    throw UserError("{}: no folder can be made there", path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace sluice
