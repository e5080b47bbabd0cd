#pragma once

#include <functional>
#include <string_view>

namespace sluice {

/// Does what captures graphs (lib/tensors/gpu/device_graph.h) of a block's
/// operations. Throws UserError where `what` ("its layers") does something that
/// CUDA can't capture.
void capture_for_graphs(int block, std::string_view what,
                        const std::function<void()>& capture);

}  // namespace sluice
