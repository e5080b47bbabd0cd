#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace sluice {

/// The part of NCCL that a group of replicas needs, declared here, so that
/// every build compiles it: NCCL is looked for when the program runs. The
/// types, numbers and arguments are those of nccl.h, which are the same in all
/// of NCCL 2.
struct Nccl {
  using Comm = void*;    // an ncclComm_t
  using Stream = void*;  // a cudaStream_t
  using Result = int;    // an ncclResult_t
  struct UniqueId {
    std::array<char, 128> bytes = {};
  };
  static constexpr Result kSuccess = 0;
  static constexpr Result kInProgress = 7;
  static constexpr int kSum = 0;
  /// Oldest version that works, as ncclGetVersion() counts: 2.18.0.
  static constexpr int kOldest = 21800;

  // ncclDataType_t
  static constexpr int kInt8 = 0;
  static constexpr int kUint8 = 1;
  static constexpr int kInt32 = 2;
  static constexpr int kInt64 = 4;
  static constexpr int kFloat16 = 6;
  static constexpr int kFloat32 = 7;
  static constexpr int kFloat64 = 8;
  static constexpr int kBfloat16 = 9;

  Result (*get_version)(int* version) = nullptr;
  const char* (*error_string)(Result result) = nullptr;
  Result (*get_unique_id)(UniqueId* id) = nullptr;
  Result (*comm_init_rank)(Comm* comm, int ranks, UniqueId id,
                           int rank) = nullptr;
  Result (*comm_async_error)(Comm comm, Result* error) = nullptr;
  Result (*comm_abort)(Comm comm) = nullptr;
  Result (*comm_destroy)(Comm comm) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*all_reduce)(const void* from, void* to, std::size_t count, int type,
                       int op, Comm comm, Stream stream) = nullptr;
  Result (*send)(const void* from, std::size_t count, int type, int peer,
                 Comm comm, Stream stream) = nullptr;
  Result (*receive)(void* to, std::size_t count, int type, int peer, Comm comm,
                    Stream stream) = nullptr;
};

/// The table of a library, by default the copy that LibTorch has loaded, else
/// the loader's. The library stays loaded to the end of the process. Throws
/// UserError when there is none, or one that is too old.
Nccl load_nccl(const std::string& path = "libnccl.so.2");

}  // namespace sluice
