#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

namespace sluice {

/// Numbers on the GPU.
template <class T>
class GpuArray {
 public:
  explicit GpuArray(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()),
              cudaSuccess);
  }
  explicit GpuArray(const std::vector<T>& values) : GpuArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyDefault),
              cudaSuccess);
  }
  ~GpuArray() { cudaFree(data_); }
  GpuArray(const GpuArray&) = delete;
  GpuArray& operator=(const GpuArray&) = delete;

  T* data() const { return data_; }
  /// Waits for what was started before.
  std::vector<T> fetched() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDefault),
              cudaSuccess);
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  std::size_t count_;
  T* data_ = nullptr;
};

inline bool has_gpu() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
}

template <class T>
bool same_bits(const std::vector<T>& left, const std::vector<T>& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0;
}

}  // namespace sluice
