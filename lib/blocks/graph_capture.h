#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace sluice {

/// Batches that run as ever before their operations are captured: LibTorch and
/// CUDA's libraries make and choose by then what they keep.
inline constexpr std::int64_t kGraphWarmUps = 2;

/// Does what captures graphs (lib/tensors/device_graph.h) of a block's
/// operations. Throws UserError where `what` ("its layers") does something that
/// CUDA can't capture.
void capture_for_graphs(int block, std::string_view what,
                        const std::function<void()>& capture);

}  // namespace sluice
