#pragma once

// What a plug-in includes: a shared library with parts of one's own, which
// `plugins = ["./libmine.so"]` in a config, or --plugin, loads. docs/plugins.md
// has a whole one.
//
//   SLUICE_PLUGIN(plugin) {
//     plugin.head({"mine_head", "what it does, in a line", mine_head});
//   }
//
// It is linked with sluice::plugin (headers alone), for its functions of Sluice
// are those of the program that loads it.

#include "auxiliary_heads/boundary_site.h"
#include "auxiliary_heads/heads.h"
#include "experiments/data/data_sets.h"
#include "experiments/data/samples/samples.h"
#include "experiments/plugins/registration.h"
#include "experiments/plugins/stamp.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

#define SLUICE_EXPORTED __attribute__((visibility("default")))

extern "C" {
/// What the plug-in was built with: read from the file before it is loaded.
extern const char sluice_plugin_stamp[] SLUICE_EXPORTED;
/// Called once, by one thread, before any run begins. What it throws ends the
/// program with a line that names the plug-in.
void sluice_register(sluice::Plugin& plugin) SLUICE_EXPORTED;
}

/// Begins the function that registers, with its parameter's name. Once in a
/// plug-in, outside of any namespace.
// NOLINTBEGIN(bugprone-macro-parentheses): the parameter's name, not a value.
#define SLUICE_PLUGIN(plugin)                             \
  extern "C" {                                            \
  const char sluice_plugin_stamp[] = SLUICE_PLUGIN_STAMP; \
  }                                                       \
  extern "C" void sluice_register(::sluice::Plugin& plugin)
// NOLINTEND(bugprone-macro-parentheses)
