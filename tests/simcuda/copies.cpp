#include "tests/simcuda/copies.h"

#include <cstring>

#include "tests/simcuda/machine.h"
#include "tests/simcuda/tensors.h"

namespace sluice::simcuda {
namespace {

/// Whether the copy is one of bytes, which CUDA does without the host's help.
bool is_one_piece(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense() &&
         b.is_non_overlapping_and_dense();
}

void wait_for_copy(const Use& use) {
  count_wait(&Counts::waits_for_copies);
  host_reaches(machine().streams.at(use.stream));
}

/// Within a device, in a stream that is captured.
void capture_copy(Capture& capture, const at::Tensor& self,
                  const at::Tensor& source) {
  as_cpu(self).copy_(as_cpu(source));
  capture.add([to = unowned(self), from = unowned(source)](const Use& replay) {
    read(from, replay);
    write(to, replay);
    as_cpu(to).copy_(as_cpu(from));
  });
}

/// In the source's stream, as LibTorch does it, with a barrier of both.
void copy_between_devices(at::Tensor& self, const at::Tensor& source) {
  Machine& m = machine();
  const std::size_t from = computing_on(source.get_device());
  const std::size_t to = computing_on(self.get_device());
  if (Capture* const capture = from == to ? capture_of(from) : nullptr)
    return capture_copy(*capture, self, source);
  join(m.streams.at(from), m.streams.at(to));
  const Use use = start(from, "copy_ on devices");
  ++(from == to ? m.counts.launches : m.counts.between_devices);
  read(source, use);
  write(self, use);
  as_cpu(self).copy_(as_cpu(source));
  join(m.streams.at(to), m.streams.at(from));
}

void copy_to_device(at::Tensor& self, const at::Tensor& source,
                    bool non_blocking) {
  Machine& m = machine();
  const Use use =
      start(computing_on(self.get_device()), "a copy to the device");
  write(self, use);
  PinnedBlock* const pinned = find_pinned(source.const_data_ptr());
  ++(pinned != nullptr ? m.counts.pinned_to_device
                       : m.counts.pageable_to_device);
  if (pinned != nullptr && non_blocking && is_one_piece(self, source)) {
    m.to_device.push_back(
        {.from = static_cast<const std::byte*>(source.const_data_ptr()),
         .to = static_cast<std::byte*>(self.data_ptr()),
         .bytes = source.nbytes(),
         .use = use});
    record_copy(*pinned, source, use);
    return;
  }
  as_cpu(self).copy_(source);
  // What is pageable is copied to pinned memory first, and then forgotten.
  if (!non_blocking) wait_for_copy(use);
}

void copy_to_host(at::Tensor& self, const at::Tensor& source,
                  bool non_blocking) {
  Machine& m = machine();
  const Use use =
      start(computing_on(source.get_device()), "a copy to the host");
  read(source, use);
  PinnedBlock* const pinned = find_pinned(self.const_data_ptr());
  ++(pinned != nullptr ? m.counts.device_to_pinned
                       : m.counts.device_to_pageable);
  if (pinned != nullptr && non_blocking && is_one_piece(self, source)) {
    const at::Tensor bytes = as_cpu(source);
    const auto* const from =
        static_cast<const std::byte*>(bytes.const_data_ptr());
    auto* const to = static_cast<std::byte*>(self.data_ptr());
    m.to_host.push_back(
        {.to = to, .bytes = {from, from + source.nbytes()}, .use = use});
    std::memset(to, kPoison, source.nbytes());
    record_copy(*pinned, self, use);
    return;
  }
  self.copy_(as_cpu(source));
  wait_for_copy(use);
}

}  // namespace

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source,
                  bool non_blocking) {
  if (self.numel() == 0 || self.is_same(source)) return self;
  const Lock lock(machine().mutex);
  if (self.is_cuda() && source.is_cuda())
    copy_between_devices(self, source);
  else if (self.is_cuda())
    copy_to_device(self, source, non_blocking);
  else
    copy_to_host(self, source, non_blocking);
  return self;
}

at::Scalar local_scalar(const at::Tensor& self) {
  Machine& m = machine();
  const Lock lock(m.mutex);
  const Use use = start(computing_on(self.get_device()), "item()");
  read(self, use);
  const at::Scalar value = as_cpu(self).item();
  count_wait(&Counts::waits_for_items);
  host_reaches(m.streams.at(use.stream));
  return value;
}

}  // namespace sluice::simcuda
