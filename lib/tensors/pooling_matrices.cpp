#include "lib/tensors/pooling_matrices.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include "lib/tensors/precision.h"

namespace sluice {
namespace {

enum class Kind { averaging, interpolation };

/// Matrices on their device, where a copy for each batch would make the host
/// wait. Each thread has its own: they were made in its current stream.
const at::Tensor& matrix_for(Kind kind, std::int64_t in, std::int64_t out,
                             const at::TensorOptions& options) {
  using Key = std::tuple<Kind, std::int64_t, std::int64_t, c10::ScalarType,
                         c10::DeviceType, c10::DeviceIndex>;
  thread_local std::map<Key, at::Tensor> matrices;
  const Key key{kind,
                in,
                out,
                c10::typeMetaToScalarType(options.dtype()),
                options.device().type(),
                options.device().index()};
  at::Tensor& matrix = matrices[key];
  if (!matrix.defined())
    matrix = (kind == Kind::averaging ? averaging_matrix(in, out)
                                      : interpolation_matrix(in, out))
                 .to(options);
  return matrix;
}

at::Tensor by_matrices(Kind kind, const at::Tensor& maps, std::int64_t height,
                       std::int64_t width) {
  const FullPrecisionScope full;  // ATen's operations keep the type too
  const at::ScalarType wide = c10::promoteTypes(maps.scalar_type(), at::kFloat);
  const at::Tensor x = maps.to(wide);
  return product_of(matrix_for(kind, maps.size(2), height, x.options()), x,
                    matrix_for(kind, maps.size(3), width, x.options()))
      .to(maps.scalar_type());
}

at::Tensor empty_matrix(std::int64_t in, std::int64_t out) {
  return at::zeros({out, in}, at::TensorOptions(at::kDouble));
}

}  // namespace

at::Tensor averaging_matrix(std::int64_t in, std::int64_t out) {
  at::Tensor matrix = empty_matrix(in, out);
  auto numbers = matrix.accessor<double, 2>();
  for (std::int64_t i = 0; i < out; ++i) {
    const std::int64_t first = i * in / out;
    const std::int64_t end = ((i + 1) * in + out - 1) / out;
    for (std::int64_t j = first; j < end; ++j)
      numbers[i][j] = 1.0 / static_cast<double>(end - first);
  }
  return matrix;
}

at::Tensor interpolation_matrix(std::int64_t in, std::int64_t out) {
  at::Tensor matrix = empty_matrix(in, out);
  auto numbers = matrix.accessor<double, 2>();
  const double step =
      out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  for (std::int64_t i = 0; i < out; ++i) {
    const double place = step * static_cast<double>(i);
    const auto before = std::min(static_cast<std::int64_t>(place), in - 1);
    const std::int64_t after = std::min(before + 1, in - 1);
    const double beyond = place - static_cast<double>(before);
    numbers[i][before] += 1 - beyond;
    numbers[i][after] += beyond;
  }
  return matrix;
}

at::Tensor product_of(const at::Tensor& rows, const at::Tensor& maps,
                      const at::Tensor& columns) {
  if (maps.suggest_memory_format() != at::MemoryFormat::ChannelsLast)
    return at::matmul(rows, at::matmul(maps, columns.t()));
  const at::Tensor pixels = maps.permute({0, 2, 3, 1});   // [N, H, W, C]
  const at::Tensor narrow = at::matmul(columns, pixels);  // [N, H, width, C]
  const at::Tensor both = at::matmul(rows, narrow.flatten(2));
  return both.unflatten(2, {columns.size(0), maps.size(1)})
      .permute({0, 3, 1, 2});
}

at::Tensor average_by_matrices(const at::Tensor& maps, std::int64_t height,
                               std::int64_t width) {
  return by_matrices(Kind::averaging, maps, height, width);
}

at::Tensor resize_by_matrices(const at::Tensor& maps, std::int64_t height,
                              std::int64_t width) {
  return by_matrices(Kind::interpolation, maps, height, width);
}

}  // namespace sluice
