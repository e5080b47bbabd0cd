#include "tests/experiments/helpers/claims.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "experiments/config/files/toml.h"
#include "lib/base/config.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// "Cuts are ranges" of models.toml: models_CutsAreRanges.
std::string test_name(const fs::path& file, const std::string& sentence) {
  std::string name = file.stem().string() + "_";
  bool begins = true;
  for (const char c : sentence) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0)
      name += begins ? static_cast<char>(std::toupper(letter)) : c;
    if (c != '\'') begins = std::isalnum(letter) == 0;
  }
  return name;
}

ConfigNode base_of(const ConfigNode& table) {
  const ConfigNode* base = table.find("base");
  return base == nullptr ? ConfigNode{.value = ConfigNode::Table{}} : *base;
}

ClaimCase case_of(const ConfigNode& base, const ConfigNode& given,
                  bool is_refused) {
  ClaimCase made{.keys = base, .errors = {}, .place = given.origin.text()};
  Fields(&given, "").key("error", made.errors, {});
  if (made.errors.empty() == is_refused)
    throw UserError("{}: a refused case has an error, and no other",
                    made.place);
  ConfigNode keys = given;
  std::erase_if(std::get<ConfigNode::Table>(keys.value),
                [](const auto& entry) { return entry.first == "error"; });
  made.keys = laid_over(base, keys);
  return made;
}

Claim claim_of(const ConfigNode& base, const ConfigNode& given) {
  Claim claim;
  for (const auto& [key, node] : std::get<ConfigNode::Table>(given.value)) {
    if (key == "base") continue;
    if (key != "refused" && key != "accepted")
      throw UserError("{}: a claim has base, refused and accepted, not {}",
                      node.origin.text(), key);
    for (const ConfigNode& each : std::get<ConfigNode::Array>(node.value))
      claim.cases.push_back(case_of(base, each, key == "refused"));
  }
  return claim;
}

void add_claims(const fs::path& file, std::vector<Claim>& all) {
  const ConfigNode root = read_toml_file(file.string());
  for (const auto& [sentence, node] : std::get<ConfigNode::Table>(root.value)) {
    if (sentence == "base") continue;
    Claim claim = claim_of(laid_over(base_of(root), base_of(node)), node);
    claim.name = test_name(file, sentence);
    all.push_back(std::move(claim));
  }
}

}  // namespace

ConfigNode laid_over(const ConfigNode& under, const ConfigNode& over) {
  const auto* table = std::get_if<ConfigNode::Table>(&over.value);
  if (table == nullptr ||
      !std::holds_alternative<ConfigNode::Table>(under.value))
    return over;
  ConfigNode all = under;
  for (const auto& [key, node] : *table) {
    const ConfigNode* there = under.find(key);
    all.set(key, there == nullptr ? node : laid_over(*there, node));
  }
  return all;
}

std::vector<Claim> claims_in(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::directory_iterator(fs::path(SLUICE_TEST_FOLDER) / folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Claim> all;
  for (const fs::path& file : files) try {
      add_claims(file, all);
    } catch (const std::exception& error) {
      all.push_back({.name = test_name(file, "can be read"),
                     .fault = file.string() + ": " + error.what(),
                     .cases = {}});
    }
  return all;
}

}  // namespace sluice
