// Whatever a config file or an override holds: a tree or a UserError, and a
// tree that can be written and read again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/files/interpolation.h"
#include "experiments/config/files/overrides.h"
#include "experiments/config/files/toml.h"
#include "lib/base/config.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

void describe(Fields& fields) {
  bool flag = false;
  std::int64_t integer = 1;
  double number = 0.5;
  std::vector<std::int64_t> integers = {1};
  std::vector<std::string> strings = {};
  ConfigNode any = {};
  fields.key("a", flag, {});
  fields.key("b", integer, {.min = 0, .max = 10});
  fields.key("c", number, {.max = 1});
  fields.key("d", integers, {});
  fields.key("e", strings, {.allowed = {"x", "y"}});
  fields.key("f", any, "anything", {});
}

ConfigNode resolved(const ConfigNode& root) {
  Fields fields(&root, "");
  describe(fields);
  fields.section("s", "", describe);
  fields.list("l", "", [](Fields& row, std::int64_t) {
    std::string name = "x";
    row.key("n", name, {});
  });
  fields.finish();
  return fields.resolved();
}

/// NaN differs from itself, so trees are compared as text.
void require_same(const ConfigNode& a, const ConfigNode& b) {
  if (to_toml(a) != to_toml(b)) std::abort();
}

void check_file(std::string_view text) {
  try {
    const ConfigNode root = parse_toml(text, "fuzz");
    require_same(parse_toml(to_toml(root), "again"), root);
    require_same(interpolated(without_references(root)), root);
    const ConfigNode values = interpolated(root);
    require_same(interpolated(without_references(values)), values);
    const ConfigNode once = resolved(root);
    require_same(resolved(parse_toml(to_toml(once), "again")), once);
  } catch (const UserError&) {
    return;  // any damage may be refused
  }
}

void check_override(std::string_view text) {
  try {
    ConfigNode root = parse_toml("a = true\n[s]\nb = 1\n", "fuzz");
    apply_override(root, text);
    require_same(parse_toml(to_toml(root), "again"), root);
  } catch (const UserError&) {
    return;
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  sluice::check_file(text);
  sluice::check_override(text);
  return 0;
}
