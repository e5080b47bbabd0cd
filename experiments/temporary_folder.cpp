#include "experiments/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "lib/base/errno_text.h"
#include "lib/base/error.h"

namespace sluice {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  path_ = temporary_root() + "/sluice-XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr)
    throw UserError("{}: can't be made: {}; set TMPDIR to a folder of yours",
                    path_, errno_text());
}

std::string temporary_root() {
  std::error_code error;
  const fs::path path = fs::temp_directory_path(error);
  if (error)
    throw UserError(
        "the folder for temporary files can't be used: {}; set TMPDIR to a "
        "folder that exists",
        error.message());
  return path.string();
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace sluice
