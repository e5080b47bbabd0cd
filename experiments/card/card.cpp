#include "experiments/card/card.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "experiments/config/files/about.h"
#include "experiments/config/files/extends.h"
#include "experiments/config/files/toml.h"
#include "experiments/config/run_name.h"
#include "lib/base/config.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

void read_title(Fields& fields, Card& card) {
  fields.key("title", card.title, {.text = "what is reproduced"});
  fields.key("source", card.source, {.text = "where it was published"});
  fields.key("compares", card.compares, {.text = "what the figures are"});
  fields.key("note", card.note, {.text = "what differs from the source"});
}

ConfigNode read_overrides(Fields& fields) {
  ConfigNode node{ConfigNode::Table{}};
  fields.key("overrides", node, "table",
             {.text = "keys of the config that differ"});
  if (!std::holds_alternative<ConfigNode::Table>(node.value))
    fields.reject("overrides",
                  "expected a table of config keys, not " + node.describe());
  return node;
}

ConfigNode read_base(Fields& fields, const fs::path& folder) {
  std::string file;
  fields.key("config", file, {.text = "a config, relative to the card"});
  if (file.empty()) fields.reject("config", "a run needs a config");
  const fs::path path = folder / file;
  if (!fs::exists(path))
    fields.reject("config",
                  fmt::format("there is no file '{}'", path.string()));
  return read_config_file(path.string());
}

void read_published(Fields& fields, CardRun& run) {
  run.measure = "accuracy";
  double published = 0;
  double tolerance = 0;
  fields.key("measure", run.measure,
             {.text = "figure of the last evaluation that is compared",
              .allowed = {"accuracy", "error", "loss"}});
  fields.key("published", published, {.text = "in %, a loss as it is"});
  fields.key("tolerance", tolerance,
             {.text = "the largest difference that passes", .min = 0});
  if (fields.has("published")) run.published = published;
  if (!fields.has("tolerance")) return;
  if (!run.published)
    fields.reject("tolerance", "means nothing without 'published'");
  run.tolerance = tolerance;
}

CardRun read_run(Fields& fields, const fs::path& folder, const Card& card,
                 const ConfigNode& common) {
  CardRun run;
  fields.key("name", run.name, {.text = "name of the run, and of its folder"});
  if (!is_name(run.name))
    fields.reject("name", fmt::format("'{}' is no name; use letters, digits "
                                      "and _",
                                      run.name));
  for (const CardRun& before : card.runs)
    if (before.name == run.name)
      fields.reject("name",
                    fmt::format("two runs have the name '{}'", run.name));
  run.config = laid_over(laid_over(read_base(fields, folder), common),
                         read_overrides(fields));
  read_published(fields, run);
  return run;
}

Condition read_condition(const std::string& text, const Card& card) {
  Condition condition = condition_of(text);
  const CardRun& left = card.find(condition.left);
  if (!condition.right.empty() &&
      card.find(condition.right).measure != left.measure)
    throw UserError("'{}' compares different measures", text);
  return condition;
}

}  // namespace

const CardRun& Card::find(const std::string& run) const {
  std::vector<std::string> names;
  for (const CardRun& each : runs) {
    if (each.name == run) return each;
    names.push_back(each.name);
  }
  throw UserError("no run has the name '{}'{}; there are: {}", run,
                  perhaps(run, names), joined(names));
}

bool is_card(const std::string& path) {
  return read_toml_file(path).find("card") != nullptr;
}

Card read_card(const std::string& path) {
  ConfigNode root = read_toml_file(path);
  take_about(root);
  const fs::path file(path);
  Card card{.name = file.stem().string(), .path = path};
  if (const std::string problem = problem_of_name(card.name); !problem.empty())
    throw UserError("{}: the card's name {}", path, problem);
  Fields top(&root, "");
  const ConfigNode common = read_overrides(top);
  top.list("run", "what is trained", [&](Fields& fields, std::int64_t index) {
    if (index >= 0)
      card.runs.push_back(read_run(fields, file.parent_path(), card, common));
  });
  top.section("card", "a published result", [&](Fields& fields) {
    read_title(fields, card);
    std::vector<std::string> conditions;
    fields.key("conditions", conditions, {.text = "conditions that must hold"});
    try {
      for (const std::string& text : conditions)
        card.conditions.push_back(read_condition(text, card));
    } catch (const UserError& error) {
      fields.reject("conditions", error.what());
    }
  });
  top.finish();
  if (card.runs.empty()) top.reject("run", "a card needs at least one [[run]]");
  return card;
}

}  // namespace sluice
