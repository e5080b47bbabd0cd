#pragma once

#include <cstddef>

// In the place of CUDA's header of that name: as much of its interface as
// lib/kernels/cuda_ipc.cu and cuda_host_memory.cu use, which are compiled with
// it unchanged. The functions (*_functions.cpp) are those of the simulated GPU;
// a name means what CUDA's documentation says of it.

// Names of their own, for a build with nvcc has CUDA's functions too.
#define cudaDeviceCanAccessPeer simulated_cudaDeviceCanAccessPeer
#define cudaDeviceGetAttribute simulated_cudaDeviceGetAttribute
#define cudaEventCreateWithFlags simulated_cudaEventCreateWithFlags
#define cudaEventDestroy simulated_cudaEventDestroy
#define cudaEventRecord simulated_cudaEventRecord
#define cudaGetDevice simulated_cudaGetDevice
#define cudaGetDeviceCount simulated_cudaGetDeviceCount
#define cudaGetDeviceProperties simulated_cudaGetDeviceProperties
#define cudaGetErrorString simulated_cudaGetErrorString
#define cudaGetLastError simulated_cudaGetLastError
#define cudaHostRegister simulated_cudaHostRegister
#define cudaHostUnregister simulated_cudaHostUnregister
#define cudaIpcCloseMemHandle simulated_cudaIpcCloseMemHandle
#define cudaIpcGetEventHandle simulated_cudaIpcGetEventHandle
#define cudaIpcGetMemHandle simulated_cudaIpcGetMemHandle
#define cudaIpcOpenEventHandle simulated_cudaIpcOpenEventHandle
#define cudaIpcOpenMemHandle simulated_cudaIpcOpenMemHandle
#define cudaMalloc simulated_cudaMalloc
#define cudaMemcpyAsync simulated_cudaMemcpyAsync
#define cudaSetDevice simulated_cudaSetDevice
#define cudaStreamSynchronize simulated_cudaStreamSynchronize
#define cudaStreamWaitEvent simulated_cudaStreamWaitEvent

struct CUstream_st;
struct CUevent_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorDeviceUninitialized = 201,
  cudaErrorAlreadyMapped = 208,
  cudaErrorPeerAccessUnsupported = 217,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalAddress = 700,
  cudaErrorHostMemoryAlreadyRegistered = 712,
  cudaErrorHostMemoryNotRegistered = 713,
};

enum cudaDeviceAttr { cudaDevAttrIpcEventSupport = 125 };
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };

constexpr unsigned cudaEventDisableTiming = 2;
constexpr unsigned cudaEventInterprocess = 4;
constexpr unsigned cudaHostRegisterPortable = 1;
constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  cudaUUID_t uuid;
};
struct cudaIpcMemHandle_t {
  char reserved[64];
};
struct cudaIpcEventHandle_t {
  char reserved[64];
};

extern "C" {

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);

cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);

cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* memory);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned flags);

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory);
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                 unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void* memory);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle,
                                  cudaEvent_t event);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                   cudaIpcEventHandle_t handle);

}  // extern "C"
