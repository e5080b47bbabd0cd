#include "experiments/api/own_parts.h"

#include <algorithm>
#include <mutex>
#include <span>
#include <string_view>

#include "auxiliary_heads/heads.h"
#include "experiments/data/data_sets.h"
#include "lib/base/added_rows.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

template <class Make>
void add_own_rows(std::string_view kind, std::span<const Row<Make>> (*table)(),
                  const std::vector<Row<Make>>& rows) {
  for (const Row<Make>& row : rows) {
    if (row.make == nullptr)
      throw UserError("{} '{}': its row has nothing that makes it", kind,
                      row.name);
    const std::span<const Row<Make>> there = table();
    const auto same = std::find_if(
        there.begin(), there.end(),
        [&](const Row<Make>& other) { return other.name == row.name; });
    if (same == there.end())
      add_row(there, Row<Make>{added_rows::keep(row.name),
                               added_rows::keep(row.summary), row.make});
    else if (same->make != row.make)
      throw UserError("{} '{}' is there already; give yours another name", kind,
                      row.name);
  }
}

}  // namespace

void add_own_parts(const NetworkOptions& options) {
  static std::mutex turn;  // tables are added to by one thread at a time
  const std::lock_guard lock(turn);
  add_own_rows("head", heads, options.heads);
  add_own_rows("loss", losses, options.losses);
  add_own_rows("optimizer", optimizers, options.optimizers);
  add_own_rows("data set", data_sets, options.data_sets);
}

}  // namespace sluice
