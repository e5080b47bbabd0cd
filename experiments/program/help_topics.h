#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/manual/catalog.h"

namespace sluice {

/// `sluice help TOPIC`, beside the commands' own.
struct HelpTopic {
  std::string_view name;
  std::string_view summary;
  void (*print)();
};
std::span<const HelpTopic> help_topics();

/// What `sluice help NAME` and `sluice list NAME` print: the published systems
/// of that name with the keys that are it, rows of `sluice list`, and keys of a
/// config. Throws UserError, with the nearest name, when nothing is called so;
/// `others` are names that are known elsewhere.
std::string text_about(const std::string& name,
                       const std::vector<std::string>& others);

/// What `sluice help config KEY` prints: KEY is a whole path, the path of a
/// table, or the last part of a path. Throws UserError with the nearest key.
std::string text_about_key(const std::string& key);
/// Text about a key where known_keys() are at hand.
std::string text_about_key(const std::string& key,
                           std::span<const KnownKey> known);

}  // namespace sluice
