// A plug-in that calls what neither it nor the program has.
#include "experiments/plugins/plugin.h"

namespace sluice {
void found_nowhere(Plugin& plugin);
}

SLUICE_PLUGIN(plugin) {
  sluice::found_nowhere(plugin);
}
