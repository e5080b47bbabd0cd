#include "lib/replicas/groups/mpi_exchange.h"

#ifdef SLUICE_MPI

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>

#include "lib/base/error.h"

namespace sluice::mpi {
namespace {

/// The type as which MPI adds up tensors of that type.
at::ScalarType summed_as(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

MPI_Datatype mpi_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kByte:
      return MPI_UINT8_T;
    case at::kChar:
      return MPI_INT8_T;
    case at::kShort:
      return MPI_INT16_T;
    case at::kInt:
      return MPI_INT32_T;
    case at::kLong:
      return MPI_INT64_T;
    default:
      throw UserError("replicas.group = 'mpi' can't sum tensors of type {}",
                      c10::toString(type));
  }
}

/// Elements of one call: MPI counts them in an int.
constexpr std::int64_t kMostElements = std::int64_t{1} << 22U;

}  // namespace

void Sums::start() {
  const std::lock_guard lock(mpi_mutex());
  start_next();
}

bool Sums::test() {
  const std::lock_guard lock(mpi_mutex());
  int is_over = 0;
  check(MPI_Test(&request_, &is_over, MPI_STATUS_IGNORE), name_, "MPI_Test");
  if (is_over && !are_over()) start_next();
  return are_over();
}

void Sums::start_next() {
  if (calls_.empty()) return;
  const Call call = calls_.front();
  calls_.pop_front();
  // MPI_IN_PLACE is a cast, made in a header of C.
  void* const in_place = MPI_IN_PLACE;  // NOLINT
  check(MPI_Iallreduce(in_place, call.elements, call.count, call.type, call.op,
                       communicator_, &request_),
        name_, "MPI_Iallreduce");
}

template <class Copy>
void Buffers::for_each(const FlatTensors& flat, Copy copy) const {
  std::map<at::ScalarType, std::int64_t> next;
  for (const at::Tensor& piece : flat.range(0, flat.elements())) {
    const at::ScalarType type = summed_as(piece.scalar_type());
    const std::int64_t begin = next[type];
    next[type] = begin + piece.numel();
    copy(buffers_.at(type).slice(0, begin, next[type]), piece);
  }
}

Buffers::Buffers(const FlatTensors& like) {
  std::map<at::ScalarType, std::int64_t> elements;
  for (const at::Tensor& piece : like.range(0, like.elements())) {
    const at::ScalarType type = summed_as(piece.scalar_type());
    mpi_type(type);  // there is one
    elements[type] += piece.numel();
  }
  for (const auto& [type, count] : elements)
    buffers_.emplace(type, at::empty({count}, type));
}

void Buffers::take(const FlatTensors& from) {
  for_each(from,
           [](at::Tensor here, const at::Tensor& piece) { here.copy_(piece); });
}

void Buffers::give(const FlatTensors& to) const {
  for_each(to,
           [](const at::Tensor& here, at::Tensor piece) { piece.copy_(here); });
}

void Buffers::start(Sums& sums) {
  for (auto& [type, buffer] : buffers_)
    for (std::int64_t i = 0; i < buffer.numel(); i += kMostElements) {
      const at::Tensor part =
          buffer.slice(0, i, std::min(i + kMostElements, buffer.numel()));
      sums.add(part.data_ptr(), part.numel(), mpi_type(type), MPI_SUM);
    }
  sums.start();
}

std::int64_t Buffers::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [type, buffer] : buffers_)
    sum += static_cast<std::int64_t>(buffer.nbytes());
  return sum;
}

void LayoutCheck::start(Sums& sums) {
  sums.add(least_.data(), 2, MPI_INT64_T, MPI_MIN);
  sums.start();
}

Exchange::Exchange(FlatTensors mine, Buffers buffers, MPI_Comm communicator,
                   const std::string& name)
    : mine_(std::move(mine)),
      buffers_(std::move(buffers)),
      layout_(mine_.layout()),
      hashes_(communicator, name),
      elements_(communicator, name) {
  buffers_.take(mine_);
}

void Exchange::start_elements() {
  buffers_.start(elements_);
  is_under_way_ = true;
}

bool Exchange::advance() {
  if (!have_all_begun()) {
    if (is_under_way_) elements_.test();
    return false;
  }
  if (!is_same_layout()) return true;
  if (!is_under_way_) start_elements();
  return elements_.test();
}

Tensors Exchange::sums() const {
  Tensors sums;
  for (const at::Tensor& tensor : mine_.tensors())
    sums.push_back(tensor.defined() ? at::empty_like(tensor) : at::Tensor());
  buffers_.give(FlatTensors(sums));
  return sums;
}

void keep_for_ever(std::unique_ptr<Exchange> exchange) {
  is_broken() = true;
  exchange->drop_inputs();
  static_cast<void>(exchange.release());
}

}  // namespace sluice::mpi

#endif
