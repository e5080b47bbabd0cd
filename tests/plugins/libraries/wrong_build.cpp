// What was built for another Sluice. None of it may run: its data would be laid
// out otherwise.
#include <cstdlib>

extern "C" {
extern const char sluice_plugin_stamp[];
const char sluice_plugin_stamp[] =
    "sluice-plug-in: Sluice 0.0.1 (headers 0123456789ab), LibTorch 1.0.0, C++ "
    "ABI 1002/1";
void sluice_register(void*) {
  std::abort();
}
}

namespace {

struct AbortAtLoad {
  AbortAtLoad() { std::abort(); }
} const runs_as_it_is_loaded;

}  // namespace
