#include "lib/kernels/nccl.h"

#include <dlfcn.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

/// Function of the library by name; a library that lacks it is too old, which
/// is an error.
template <class Function>
void find_in_nccl(void* library, const std::string& path, const char* name,
                  Function*& function) {
  void* const found = ::dlsym(library, name);
  if (found == nullptr)
    throw UserError(
        "replicas.group = 'nccl': {} has no {}: install NCCL 2.18 or later",
        path, name);
  function = reinterpret_cast<Function*>(found);  // NOLINT: as POSIX has it
}

const char* reason_of_loader() {
  const char* const reason = ::dlerror();
  return reason == nullptr ? "no reason is given" : reason;
}

}  // namespace

Nccl load_nccl(const std::string& path) {
  // A copy that is loaded under this name is the one that is given.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw UserError(
        "replicas.group = 'nccl': NCCL can't be loaded ({}): install it, or "
        "set group = 'links'",
        reason_of_loader());
  Nccl nccl;
  find_in_nccl(library, path, "ncclGetVersion", nccl.get_version);
  int version = 0;
  if (nccl.get_version(&version) != Nccl::kSuccess || version < Nccl::kOldest)
    throw UserError(
        "replicas.group = 'nccl': {} is NCCL {}.{}: install 2.18 or later, or "
        "set group = 'links'",
        path, version / 10000, version / 100 % 100);
  find_in_nccl(library, path, "ncclGetErrorString", nccl.error_string);
  find_in_nccl(library, path, "ncclGetUniqueId", nccl.get_unique_id);
  find_in_nccl(library, path, "ncclCommInitRank", nccl.comm_init_rank);
  find_in_nccl(library, path, "ncclCommGetAsyncError", nccl.comm_async_error);
  find_in_nccl(library, path, "ncclCommAbort", nccl.comm_abort);
  find_in_nccl(library, path, "ncclCommDestroy", nccl.comm_destroy);
  find_in_nccl(library, path, "ncclGroupStart", nccl.group_start);
  find_in_nccl(library, path, "ncclGroupEnd", nccl.group_end);
  find_in_nccl(library, path, "ncclAllReduce", nccl.all_reduce);
  find_in_nccl(library, path, "ncclSend", nccl.send);
  find_in_nccl(library, path, "ncclRecv", nccl.receive);
  return nccl;
}

}  // namespace sluice
