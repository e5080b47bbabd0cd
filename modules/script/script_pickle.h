#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace sluice {

/// Walks over a pickle of a TorchScript file ("data.pkl") as LibTorch's reader
/// does, and makes nothing of it. Throws UserError, with `file` and `name`, for
/// what would run code or reach beyond the file: classes of C++ code
/// (torch.classes), Python's functions, tensors larger than their storage,
/// storages larger than their record, containers nested absurdly deep, and
/// opcodes and forms that TorchScript doesn't write. `bytes_of(key)` is the
/// size of a storage's record.
void check_script_pickle(
    std::string_view pickle, const std::string& file, const std::string& name,
    const std::function<std::uint64_t(const std::string& key)>& bytes_of);

}  // namespace sluice
