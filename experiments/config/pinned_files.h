#pragma once

#include <string>
#include <string_view>

#include "lib/base/config_node.h"

namespace sluice {

/// The TorchScript file that a resolved config's blocks and their first weights
/// come from; empty: there is none.
std::string script_file_of(const ConfigNode& resolved);

/// The text at table.key; empty where there is none.
std::string text_of_key(const ConfigNode& resolved, std::string_view table,
                        std::string_view key);

/// Writes into a resolved config the hashes of the files that its numbers come
/// from, so that another file of the same name is noticed: `model.sha256` of a
/// TorchScript file, `data.tokenizer_sha256` of a text (empty: it has none).
/// Throws UserError where the config says another `model.sha256`.
void pin_files(const std::string& tokenizer_sha256, ConfigNode& resolved);

}  // namespace sluice
