#include "lib/blocks/graph_capture.h"

#include <ATen/autocast_mode.h>

#include "lib/base/error.h"
#include "lib/tensors/error_text.h"
#include "lib/tensors/gpu/out_of_memory.h"

namespace sluice {
namespace {

/// Casts that autocast keeps for a while would lie in memory of the graph.
class CastCachePause {
 public:
  CastCachePause() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~CastCachePause() { at::autocast::set_autocast_cache_enabled(before_); }
  CastCachePause(const CastCachePause&) = delete;
  CastCachePause& operator=(const CastCachePause&) = delete;

 private:
  const bool before_;
};

}  // namespace

void capture_for_graphs(int block, std::string_view what,
                        const std::function<void()>& capture) {
  const CastCachePause no_casts_kept;
  try {
    capture();
  } catch (const c10::Error& error) {
    if (is_out_of_gpu_memory(error)) throw;
    throw UserError(
        "block {}: {} can't be captured in a graph, as graphs = true wants: "
        "set graphs = false. LibTorch says: {}",
        block, what, text_of(error));
  }
}

}  // namespace sluice
