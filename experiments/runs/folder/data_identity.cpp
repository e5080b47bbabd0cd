#include "experiments/runs/folder/data_identity.h"

#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/config/files/json.h"
#include "experiments/data/order/fingerprint.h"
#include "experiments/runs/folder/provenance.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

/// A number in [data]; nothing where its data set has no such key.
Json key_of_data(const Experiment& experiment, const char* key) {
  const ConfigNode* data = experiment.resolved.find("data");
  const ConfigNode* node = data == nullptr ? nullptr : data->find(key);
  return node == nullptr ? Json() : json_of(*node);
}

Json split_of(const Experiment& experiment) {
  const DataSet& data = *experiment.data;
  Json split = {{"train", data.train.size()},
                {"validation", data.validation.size()},
                {"test", data.test.size()}};
  for (const char* key : {"validation", "validation_seed"})
    if (Json value = key_of_data(experiment, key); value.is_number())
      split[key == std::string("validation") ? "share" : key] =
          std::move(value);
  split["order_seed"] = experiment.seed;
  split["batch_size"] = experiment.batch_size;
  split["drop_last"] = experiment.drop_last;
  return split;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string difference_of_files(const Json& before, const Json& now) {
  if (before.size() != now.size())
    return fmt::format("it has {} data files, and had {}", now.size(),
                       before.size());
  auto was = before.begin();
  for (auto is = now.begin(); is != now.end(); ++is, ++was)
    if (*is != *was)
      return fmt::format("{} has {}, and had {}", is.key(), text_of(*is),
                         text_of(*was));
  return "";
}

constexpr std::pair<const char*, const char*> kOfSplit[] = {
    {"train", "samples to train on: {}, before {}"},
    {"validation", "samples of the validation split: {}, before {}"},
    {"share", "data.validation: {}, before {}"},
    {"validation_seed", "data.validation_seed: {}, before {}"},
    {"test", "samples of the test split: {}, before {}"},
    {"order_seed", "seed of the order of samples: {}, before {}"},
    {"batch_size", "batch_size: {}, before {}"},
    {"drop_last", "drop_last: {}, before {}"},
};

std::string difference_of_split(const Json& before, const Json& now) {
  for (const auto& [key, text] : kOfSplit)
    if (before.contains(key) && now.contains(key) && before[key] != now[key])
      return fmt::format(fmt::runtime(text), now[key].dump(),
                         before[key].dump());
  return "";
}

}  // namespace

Json data_identity(const Experiment& experiment) {
  Json identity = Json::object();
  if (!experiment.data) return identity;
  identity["files"] = json_of(fingerprint_of(*experiment.data));
  if (identity["files"].is_null()) identity["files"] = Json::object();
  identity["split"] = split_of(experiment);
  return identity;
}

Json data_in(const Json& run) {
  Json found = run.value("data", Json());
  if (const auto parts = run.find("continued"); parts != run.end())
    for (const Json& part : *parts)
      if (part.contains("data")) found = part["data"];
  return found;
}

std::string data_difference(const Json& before, const Json& now) {
  const auto part = [](const Json& data, const char* key) {
    const auto at = data.find(key);
    return at != data.end() && at->is_object() ? *at : Json::object();
  };
  if (!before.is_object() || !now.is_object()) return "";
  if (before.contains("files"))
    if (std::string found =
            difference_of_files(part(before, "files"), part(now, "files"));
        !found.empty())
      return found;
  return difference_of_split(part(before, "split"), part(now, "split"));
}

Json without_order(Json data) {
  if (data.is_object() && data.contains("split"))
    for (const char* key : {"order_seed", "batch_size", "drop_last"})
      data["split"].erase(key);
  return data;
}

Json without_evaluated(Json data) {
  if (data.is_object() && data.contains("split"))
    for (const char* key : {"validation", "test"}) data["split"].erase(key);
  return data;
}

void check_same_data(const std::string& run_folder,
                     const Experiment& experiment) {
  const std::string file = run_folder + "/run.json";
  if (!experiment.data || !std::filesystem::exists(file)) return;
  const std::string found = data_difference(data_in(read_provenance(file)),
                                            data_identity(experiment));
  if (!found.empty())
    throw UserError(
        "{}: the data are not those that it was trained with: {}; bring those "
        "back, or say where they are with data.root or the key that names them",
        run_folder, found);
}

}  // namespace sluice
