#pragma once

/// Marks a function that the loops of the CPU and those of CUDA are made of, so
/// that both give the same bits.
#ifdef __CUDACC__
#define SLUICE_ON_ANY_DEVICE __host__ __device__
#else
#define SLUICE_ON_ANY_DEVICE
#endif
