#include "experiments/config/pinned_files.h"

#include <variant>

#include "experiments/data/files/sha256.h"
#include "lib/base/error.h"

namespace sluice {

std::string text_of_key(const ConfigNode& resolved, std::string_view table,
                        std::string_view key) {
  const ConfigNode* section = resolved.find(table);
  const ConfigNode* node = section == nullptr ? nullptr : section->find(key);
  const auto* text =
      node == nullptr ? nullptr : std::get_if<std::string>(&node->value);
  return text == nullptr ? "" : *text;
}

std::string script_file_of(const ConfigNode& resolved) {
  if (text_of_key(resolved, "model", "name") != "torchscript") return "";
  return text_of_key(resolved, "model", "file");
}

void pin_files(const std::string& tokenizer_sha256, ConfigNode& resolved) {
  if (!tokenizer_sha256.empty())
    resolved.set_path("data.tokenizer_sha256", {.value = tokenizer_sha256});
  const std::string script = script_file_of(resolved);
  if (script.empty()) return;
  const std::string found = sha256_of_file(script);
  const std::string wanted = text_of_key(resolved, "model", "sha256");
  if (!wanted.empty() && wanted != found)
    throw UserError(
        "{}: has the SHA-256 {:.12}..., and the run was made with {:.12}...: "
        "put that file back, or take the new one with model.sha256=\"\"",
        script, found, wanted);
  resolved.set_path("model.sha256", {.value = found});
}

}  // namespace sluice
