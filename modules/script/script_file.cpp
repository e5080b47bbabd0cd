#include "modules/script/script_file.h"

#include <cstddef>
#include <memory>
#include <string_view>

#include <c10/util/Exception.h>
#include <caffe2/serialize/file_adapter.h>
#include <torch/csrc/jit/serialization/import.h>

#include "lib/base/error.h"
#include "lib/base/files/read_file.h"
#include "modules/script/script_archive.h"
#include "modules/script/script_operators.h"

namespace sluice {
namespace {

/// The first sentence: what follows is about checkpoints, or LibTorch's own
/// messages.
std::string first_sentence(const std::string& text) {
  return text.substr(0, text.find(". "));
}

torch::jit::Module load(const std::string& file, bool is_trusted) {
  const auto bytes = std::make_shared<caffe2::serialize::FileAdapter>(file);
  if (!is_trusted) check_script_archive(bytes, file);
  torch::jit::Module module = torch::jit::load(bytes, c10::Device(c10::kCPU),
                                               /*load_debug_files=*/false);
  if (!is_trusted) check_script_operators(module, file);
  return module;
}

}  // namespace

std::string script_error(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string all =
      torch != nullptr ? torch->what_without_backtrace() : error.what();
  constexpr std::string_view kBefore = "RuntimeError: ";
  const std::size_t found = all.rfind(kBefore);
  const std::size_t begin = all.find_first_not_of(
      '\n', found == all.npos ? 0 : found + kBefore.size());
  if (begin == all.npos) return "";
  return all.substr(begin, all.find('\n', begin) - begin);
}

torch::jit::Module load_script(const std::string& file, bool is_trusted) {
  if (file.empty())
    throw UserError(
        "model.file: is missing; write one with "
        "torch.jit.script(model).save(FILE)");
  check_regular_file(file);
  try {
    return load(file, is_trusted);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(
        "{}: is no TorchScript file, or a damaged one: write it with "
        "torch.jit.script(model).save(FILE) ({})",
        file, first_sentence(script_error(error)));
  }
}

}  // namespace sluice
