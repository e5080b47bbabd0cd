#include "lib/tensors/gpu/gpu_arithmetic.h"

#include <cstdlib>

#include <ATen/Context.h>

namespace sluice {

void GpuArithmetic::describe(Fields& fields) {
  fields.key("deterministic", deterministic,
             {.text = "on GPUs: use only algorithms that give the same bits "
                      "each time; an operation without one is an error"});
  fields.key("tf32", tf32,
             {.text = "on GPUs: round the factors of float32 matrix products "
                      "and convolutions to TensorFloat-32, 10 bits of mantissa "
                      "instead of 23, which is several times as fast; gives "
                      "other bits than false, the same ones each time"});
  fields.key(
      "cudnn_benchmark", cudnn_benchmark,
      {.text = "on GPUs: let cuDNN time its algorithms for each new shape and "
               "use the fastest, which may be another one in the next run or "
               "process, with other bits; wants deterministic = false"});
  if (deterministic && cudnn_benchmark)
    fields.reject("cudnn_benchmark",
                  "chooses algorithms by time, so that bits differ from run to "
                  "run: set deterministic = false too, or leave it out");
}

void set_gpu_arithmetic(const GpuArithmetic& arithmetic) {
  // cuBLAS reads it when it starts; without it its sums depend on the stream.
  if (arithmetic.deterministic)
    // NOLINTNEXTLINE(concurrency-mt-unsafe): before there are other threads
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*replace=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(arithmetic.deterministic,
                                     /*warn_only=*/false);
  // Filling what is not initialised, as LibTorch does by default then, costs
  // time, and nothing here reads it.
  context.setDeterministicFillUninitializedMemory(false);
  context.setBenchmarkCuDNN(arithmetic.cudnn_benchmark);
  context.setAllowTF32CuBLAS(arithmetic.tf32);
  context.setAllowTF32CuDNN(arithmetic.tf32);
}

}  // namespace sluice
