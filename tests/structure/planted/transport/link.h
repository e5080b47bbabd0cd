#pragma once

#include "lib/block.h"  // the violation
