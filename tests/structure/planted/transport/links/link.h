#pragma once

#include "lib/blocks/block.h"  // the violation
