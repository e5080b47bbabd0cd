// A plug-in whose registration fails after its first row.
#include <stdexcept>

#include "experiments/plugins/plugin.h"

SLUICE_PLUGIN(plugin) {
  sluice::HeadRow row = sluice::heads().front();
  row.name = "never_there";
  plugin.head(row);
  throw std::runtime_error("no luck today");
}
