#include "experiments/runs/ranks/terms.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/config/files/json.h"
#include "experiments/config/numbers.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

/// A sentence about the first difference; empty: none.
std::string first_of(const ConfigNode& rank_0, const ConfigNode& its, int rank,
                     const char* what) {
  const auto found = find_difference(its, rank_0);
  if (!found) return "";
  return fmt::format("{}{} is {} at rank {}, but {} at rank 0", what,
                     found->path, found->is, rank, found->should_be);
}

std::string difference_of_runs(const Terms& rank_0, const Terms& its,
                               int rank) {
  if (its.commit != rank_0.commit)
    return fmt::format(
        "rank {0} runs Sluice built from commit {1}, but rank 0 from {2}: run "
        "the same build in all processes",
        rank, its.commit, rank_0.commit);
  if (const auto text = first_of(rank_0.config, its.config, rank, "");
      !text.empty())
    return text + ": start all ranks with the same config";
  if (const auto text = first_of(rank_0.data, its.data, rank, "the data file ");
      !text.empty())
    return text + ": give all ranks the same data";
  if (its.first_turn != rank_0.first_turn)
    return fmt::format(
        "rank {} begins at turn {}, but rank 0 at turn {}: start all ranks "
        "with --resume, or none",
        rank, its.first_turn, rank_0.first_turn);
  return "";
}

}  // namespace

std::string to_text(const Terms& terms) {
  const Json json = {{"commit", terms.commit},
                     {"config", json_of(terms.config)},
                     {"data", json_of(terms.data)},
                     {"first_turn", terms.first_turn},
                     {"build", json_of(terms.build)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Terms terms_from(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return {.commit = json.at("commit"),
            .config = config_of_json(json.at("config")),
            .data = config_of_json(json.at("data")),
            .first_turn = json.at("first_turn"),
            .build = config_of_json(json.at("build"))};
  } catch (const Json::exception& error) {
    throw LinkError("it said of its run what can't be read: {}", error.what());
  } catch (const UserError& error) {
    throw LinkError("it said of its run what can't be read: {}", error.what());
  }
}

std::string other_build(const Terms& rank_0, const Terms& its, int rank) {
  return first_of(rank_0.build, its.build, rank, "");
}

std::string why_refused(const Terms& rank_0, const Terms& its, int rank,
                        bool equal_builds) {
  const std::string difference = difference_of_runs(rank_0, its, rank);
  if (!difference.empty() || !equal_builds) return difference;
  const std::string build = other_build(rank_0, its, rank);
  if (build.empty()) return "";
  return build + ", and equal_builds = true asks for the same";
}

}  // namespace sluice
