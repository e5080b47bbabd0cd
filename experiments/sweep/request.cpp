#include "experiments/sweep/request.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/config/files/json.h"
#include "experiments/config/files/json_file.h"
#include "lib/base/error.h"
#include "lib/base/nearest.h"

namespace sluice::sweep {
namespace {

using Json = nlohmann::ordered_json;

bool is_id(const Json& json) {
  return json.is_string() || json.is_number_integer();
}

/// The id of a line, as far as it has one.
Json id_in(const Json& json) {
  if (json.is_object())
    for (const char* key : {"id", "prune"})
      if (json.contains(key) && is_id(json[key])) return json[key];
  return nullptr;
}

void check_keys(const Json& json) {
  const std::vector<std::string> known = {"id", "params", "seed", "prune"};
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw UserError("there is no '{}'{}: a line has {}", key,
                      perhaps(key, known), joined(known));
}

std::vector<CellValue> params_of(const Json& json) {
  if (!json.is_object())
    throw UserError("params wants an object, as in {{\"optimizer.lr\": 0.01}}");
  std::vector<CellValue> values;
  for (const auto& [key, value] : json.items()) {
    if (key.empty() || key == "seed" || key == "sweep" ||
        key.starts_with("sweep."))
      throw UserError("params: '{}' can't be one of them{}", key,
                      key == "seed" ? "; it stands beside them" : "");
    values.emplace_back(key, config_of_json(value));
  }
  return values;
}

std::int64_t seed_of(const Json& json) {
  const bool is_whole = json.is_number_integer() && json >= 0;
  if (!is_whole || config_of_json(json).value.index() == 0)
    throw UserError("a seed is a whole number from 0, not {}", json.dump());
  return json.get<std::int64_t>();
}

Request read(const Json& json) {
  if (!json.is_object())
    throw UserError("a line is a JSON object, as in {{\"params\": {{}}}}");
  check_keys(json);
  if (json.contains("id") && !is_id(json["id"]))
    throw UserError("an id is a text or an integer, not {}", json["id"].dump());
  if (json.contains("prune")) {
    if (json.size() > 1 || !is_id(json["prune"]))
      throw UserError("prune wants the id of a proposal, and nothing beside");
    return {.kind = Request::Kind::prune, .id = json["prune"]};
  }
  if (!json.contains("params")) throw UserError("a proposal wants params");
  Request request{.id = id_in(json), .values = params_of(json["params"])};
  if (json.contains("seed")) request.seed = seed_of(json["seed"]);
  return request;
}

}  // namespace

Request request_of(const std::string& line) {
  Json json;
  try {
    json = parse_json(line, "a request");
  } catch (const UserError& error) {
    throw BadRequest(fmt::format("is no JSON: {}", error.what()), nullptr);
  }
  try {
    return read(json);
  } catch (const UserError& error) {
    throw BadRequest(error.what(), id_in(json));
  }
}

}  // namespace sluice::sweep
