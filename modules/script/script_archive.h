#pragma once

#include <memory>
#include <string>

#include <caffe2/serialize/read_adapter_interface.h>

namespace sluice {

/// Looks at a TorchScript file before anything of it is loaded, since LibTorch
/// compiles sources and makes objects as it reads, and runs parts of them:
/// check_script_source() and check_script_pickle() of all that it has. Throws
/// UserError, one line, for what they refuse, for an archive that unpacks to
/// far more than it is, with a name twice, or in the format of PyTorch before
/// 1.2; and LibTorch's own exceptions for what is no such archive.
void check_script_archive(
    const std::shared_ptr<caffe2::serialize::ReadAdapterInterface>& bytes,
    const std::string& file);

}  // namespace sluice
