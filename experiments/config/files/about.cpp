#include "experiments/config/files/about.h"

#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr std::string_view kAbout = "about";

void read_about(Fields& fields, About& about) {
  fields.section(kAbout,
                 "The published system that a config under experiments/configs "
                 "is, for `sluice list methods`, `sluice help` and "
                 "docs/coverage.md. No run reads it, and a file that extends "
                 "this one doesn't have it.",
                 [&](Fields& below) { about.describe(below); });
}

/// Reads a text whose line breaks are spaces.
void text_key(Fields& fields, std::string_view name, std::string& text,
              std::string_view meaning) {
  fields.key(name, text, {.text = meaning});
  std::istringstream words(std::exchange(text, {}));
  for (std::string word; words >> word;)
    text += (text.empty() ? "" : " ") + word;
}

}  // namespace

void About::describe(Fields& fields) {
  text_key(fields, "name", name,
           "the system, as in docs/coverage.md; empty where the rows of "
           "another config name it");
  text_key(fields, "paper", paper, "authors, year and identifier");
  text_key(fields, "group", group, "section of docs/coverage.md");
  text_key(fields, "summary", summary,
           "a line of `sluice list methods`, under the file's name; empty for "
           "none");
  text_key(fields, "source", source,
           "who published it, and where, for the page of `sluice list methods "
           "NAME`");
  text_key(fields, "kept", kept,
           "what a block or a replica keeps meanwhile, for the same page");
  text_key(fields, "staleness", staleness,
           "how late gradients are, in batches and in updates, for the same "
           "page");
  fields.key("keys", keys,
             {.text = "paths of the keys in this file that make the system: "
                      "\"boundary.policy\""});
  fields.key("rows", rows,
             {.text = "other rows of `sluice list` that it uses: \"heads "
                      "conv\""});
  fields.key(
      "model", model, "table",
      {.text = "A small model that the system is for, where not any will do."});
  if (!std::holds_alternative<std::monostate>(model.value) &&
      !std::holds_alternative<ConfigNode::Table>(model.value))
    fields.reject("model",
                  fmt::format("expected a table, got {}", model.literal()));
  fields.key("tests", tests,
             {.text = "its invariants and its oracle: \"FILE SUITE.TEST\""});
  text_key(fields, "study", study, "a card or sweep of experiments/configs");
  text_key(fields, "note", note, "what one must know, and what it lacks");
}

std::optional<About> take_about(ConfigNode& file) {
  const ConfigNode* node = file.find(kAbout);
  if (node == nullptr) return std::nullopt;
  ConfigNode only = {ConfigNode::Table{}, file.origin};
  only.set(kAbout, *node);
  About about;
  Fields fields(&only, "");
  read_about(fields, about);
  std::erase_if(std::get<ConfigNode::Table>(file.value),
                [](const auto& entry) { return entry.first == kAbout; });
  return about;
}

std::vector<KeyDoc> about_keys() {
  Fields fields(nullptr, "");
  About about;
  read_about(fields, about);
  return fields.manual();
}

}  // namespace sluice
