#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/manual/described_keys.h"
#include "lib/base/config.h"

namespace sluice {

/// Something that configs name, with the keys that come with it.
struct ListedRow {
  std::string name = {};
  std::string summary = {};
  std::vector<KnownKey> keys = {};
};

/// One of the tables of `sluice list`.
struct ListedTable {
  std::string kind = {};  ///< "heads"
  std::string what = {};  ///< "auxiliary head"
  std::string key = {};   ///< that names one: "boundary.head.name"; or empty
  std::vector<ListedRow> rows = {};
};

/// All tables, as they are now. The keys of each row come from its own
/// description, which also reads them from a config.
std::vector<ListedTable> listed_tables();

/// The table of that kind; nullptr: there is none.
const ListedTable* find_table(std::span<const ListedTable> tables,
                              std::string_view kind);
/// The table's row of that name. Throws UserError with all names and the
/// nearest one.
const ListedRow& find_listed(const ListedTable& table, std::string_view name);

/// Every key that a config can have, whatever it chooses: those that are always
/// there first. Keys of the same path that mean different things are there
/// once each. Of a key that is for each boundary or block the path is the one
/// that holds for all.
std::vector<KnownKey> known_keys();

/// The keys for config_manual(), with what must be said for them in the text.
std::vector<KeyDoc> docs_of(std::span<const KnownKey> keys);

/// Last part of a key: "lr" of "optimizer.lr".
std::string_view key_name(std::string_view path);

/// "boundary.policy" of "boundary.2.policy" and "boundary.last.policy": the
/// path that holds for all blocks or boundaries; and of codecs,
/// "boundary.codec.up.ratio", for both directions.
std::string key_of_all(const std::string& path);

/// The error's line, with a hint of where the key is meant to be: in another
/// table ("lr": optimizer.lr), or in this one with another choice.
std::string with_suggestion(const UnknownKey& error);

}  // namespace sluice
