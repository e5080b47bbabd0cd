#include "lib/tensors/disk_tensor.h"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/files/errno_text.h"
#include "lib/base/files/temporary_folder.h"

namespace sluice {
namespace {

/// A file that has no name.
class NamelessFile {
 public:
  explicit NamelessFile(const std::string& folder) {
    std::string name = folder + "/sluice-XXXXXX";
    file_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (file_ >= 0) ::unlink(name.c_str());
  }
  ~NamelessFile() {
    if (file_ >= 0) ::close(file_);
  }
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;

  /// The file in memory, with a place on the disk for each of its bytes; or
  /// MAP_FAILED, with the reason in errno.
  void* map(std::size_t bytes) const {
    if (file_ < 0) return MAP_FAILED;
    do {
      errno = ::posix_fallocate(file_, 0, static_cast<off_t>(bytes));
    } while (errno == EINTR);
    if (errno != 0) return MAP_FAILED;
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  }

 private:
  int file_ = -1;
};

}  // namespace

at::Tensor zeros_on_disk(std::int64_t rows, std::int64_t numbers) {
  const at::TensorOptions options(at::kFloat);
  const auto bytes = static_cast<std::size_t>(rows) *
                     static_cast<std::size_t>(numbers) * sizeof(float);
  if (bytes == 0) return at::zeros({rows, numbers}, options);
  const std::string folder = temporary_root();
  void* const memory = NamelessFile(folder).map(bytes);
  if (memory == MAP_FAILED)
    throw UserError(
        "'{}': {} bytes for activations can't be kept there: {}; set TMPDIR to "
        "a folder with room",
        folder, bytes, errno_text());
  return at::from_blob(
      memory, {rows, numbers},
      [bytes](void* mapped) { ::munmap(mapped, bytes); }, options);
}

}  // namespace sluice
