#pragma once

// What a program of one's own includes: #include <sluice/sluice.h>.
#include "experiments/api/sluice.h"
