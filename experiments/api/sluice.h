#pragma once

// All that a program of one's own needs. LibTorch's modules come from
// <torch/torch.h> or, faster, from the headers <torch/nn/modules/*.h>.

#include "experiments/api/network_options.h"   // sluice::NetworkOptions
#include "experiments/api/program.h"           // sluice::main, sluice::Network
#include "lib/base/error.h"                    // what it throws
#include "lib/boundaries/policies/plug_ins.h"  // for policies of one's own
#include "lib/memory/allocator.h"              // sluice::install_allocator
#include "modules/dropout.h"                   // sluice::Dropout
