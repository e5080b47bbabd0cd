#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/table.h"

namespace sluice {

/// Reads the key that names a plug-in; `name` holds the default. The plug-in's
/// own options stand beside that key, and the row's `make` reads them; a later
/// layer's choice drops those of the one before. An unknown name is a UserError
/// with its place and the valid names.
template <class Make>
const Row<Make>& choose(Fields& fields, std::string_view key,
                        std::span<const Row<Make>> rows, std::string& name,
                        std::string_view what, bool has_options = true) {
  const std::string text = fmt::format("the {}: see `sluice list`", what);
  fields.key(key, name,
             {.text = text, .decides = has_options, .names = names_of(rows)});
  try {
    return find_row(rows, name, what);
  } catch (const UserError& error) {
    fields.reject(key, error.what());
  }
}

}  // namespace sluice
