// What nvcc compiles where there is one, as it is, for the simulated GPU's
// threads (cuda_runtime.h beside this file).
#include "lib/kernels/codecs.cu"
