#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A command of the program, as its command line knows it.
struct CommandWords {
  std::string name;
  std::vector<std::string> options;    ///< "--resume"
  std::vector<CommandWords> commands;  ///< below it: "order" of "data"
  bool takes_keys = false;             ///< key=value behind the first argument
};

/// Each way to go on with the last of `words`, which follow the program's name;
/// it may be empty. Commands, their options, tables and names of `sluice list`,
/// topics and keys of `sluice help`, keys of a config (with a "=" behind), and
/// of a key with a "=" all values, where they are a few. Empty where a file is
/// meant, or anything.
std::vector<std::string> completions(std::span<const CommandWords> commands,
                                     std::span<const std::string> words);

/// What `sluice completion SHELL` prints: a function that asks `sluice complete
/// WORD...`, and its registration. Throws UserError for a shell other than
/// bash, zsh and fish.
std::string_view completion_script(std::string_view shell);

}  // namespace sluice
