#pragma once

// All that a program of one's own needs: #include <sluice/sluice.h>. It reads
// as little of LibTorch as it can. Modules come from <torch/torch.h> or, in a
// fraction of the time to compile, from the headers <torch/nn/modules/*.h>.

#include "experiments/api/network_options.h"   // sluice::NetworkOptions
#include "experiments/api/program.h"           // sluice::main, sluice::Network
#include "experiments/api/tensor_data.h"       // data sets of one's own
#include "lib/base/error.h"                    // what it throws
#include "lib/boundaries/policies/plug_ins.h"  // for policies of one's own
#include "lib/memory/allocator.h"              // sluice::install_allocator
#include "modules/dropout.h"                   // sluice::Dropout
