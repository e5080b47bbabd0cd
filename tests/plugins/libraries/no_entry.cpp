// The right stamp, and nothing to call.
#include <cstddef>

#include "experiments/plugins/stamp.h"

extern "C" {
extern const char sluice_plugin_stamp[];
const char sluice_plugin_stamp[] = SLUICE_PLUGIN_STAMP;
}
