// A plug-in with a head of a name that is taken.
#include "experiments/plugins/plugin.h"

SLUICE_PLUGIN(plugin) {
  plugin.head(sluice::heads().front());
}
