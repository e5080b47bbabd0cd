// What nvcc compiles where there is one, as it is; its header is the one beside
// this file.
#include "lib/kernels/cuda_host_memory.cu"
