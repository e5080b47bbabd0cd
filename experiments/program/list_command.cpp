// `sluice list`.
#include <fmt/format.h>

#include "experiments/config/manual/catalog.h"
#include "experiments/config/manual/manual.h"
#include "experiments/config/presets/published.h"
#include "experiments/program/commands.h"
#include "experiments/program/help/axes_table.h"
#include "experiments/program/help/method_page.h"
#include "experiments/program/help_topics.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

void print_row(std::string_view name, std::string_view summary) {
  fmt::print("  {:<21} {}\n", name, summary);
}

void list_tables(const std::vector<ListedTable>& tables) {
  for (const ListedTable& table : tables)
    print_row(table.kind, table.key.empty()
                              ? table.what
                              : fmt::format("{} ({})", table.what, table.key));
  fmt::print(
      "\nsluice list TABLE has their names, sluice list TABLE NAME the options "
      "of one.\n");
}

void list_rows(const ListedTable& table) {
  for (const ListedRow& row : table.rows) print_row(row.name, row.summary);
  if (table.kind != "methods") return;
  fmt::print(
      "\nPublished names for choices of keys, which are on the page of each "
      "(sluice list methods NAME):\n");
  for (const PresetRow& row : presets()) print_row(row.name, row.summary);
}

void print_options(const ListedRow& row) {
  if (row.keys.empty()) {
    fmt::print("\nIt has no options of its own.\n");
    return;
  }
  fmt::print("\nIts options:\n{}", config_manual(docs_of(row.keys)));
}

bool is_preset(std::string_view name) {
  for (const PresetRow& row : presets())
    if (row.name == name) return true;
  return false;
}

/// A page of its own: of a method with its timeline.
void describe_row(const ListedTable& table, const std::string& name) {
  if (table.kind == "methods") {
    fmt::print("{}", method_page(name));
    if (!is_preset(name)) print_options(find_listed(table, name));
    return;
  }
  const ListedRow& row = find_listed(table, name);
  fmt::print("{}: {}\n", row.name, row.summary);
  if (!table.key.empty()) fmt::print("\n    {}\n", saying(table.key, row.name));
  print_options(row);
}

void list_axes(const ListArguments& arguments) {
  if (arguments.kind != "methods" || !arguments.name.empty())
    throw UserError(
        "--axes is of all methods: say `sluice list methods --axes`");
  fmt::print("{}", axes_table());
}

}  // namespace

void list_command(const ListArguments& arguments) {
  if (arguments.axes) return list_axes(arguments);
  const std::vector<ListedTable> tables = listed_tables();
  if (arguments.kind.empty()) return list_tables(tables);
  const ListedTable* table = find_table(tables, arguments.kind);
  if (table == nullptr) {
    // The type isn't a table's name, but something in a table or a published
    // name.
    const std::string typed =
        arguments.kind + (arguments.name.empty() ? "" : " " + arguments.name);
    fmt::print("{}", text_about(typed, {}));
    return;
  }
  if (arguments.name.empty()) return list_rows(*table);
  describe_row(*table, arguments.name);
}

}  // namespace sluice
