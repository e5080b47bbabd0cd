#include "tests/transport/ratchet/system_calls.h"

#include <atomic>
#include <cstdlib>
#include <new>

#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace {

std::atomic<std::int64_t> calls = 0;
std::atomic<std::int64_t> bytes = 0;
std::atomic<std::int64_t> allocations = 0;

/// libc's function, whose name is this one's.
template <class Function>
Function* libc(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// A call that found nothing to do is one of those by which a thread looks
/// before it sleeps: their number is that of its spare time.
template <class Result>
Result counted(Result result) {
  if (result > 0) ++calls;
  return result;
}
ssize_t moved(ssize_t result) {
  if (result > 0) bytes += result;
  return counted(result);
}

}  // namespace

extern "C" {

ssize_t sendmsg(int file, const msghdr* message, int flags) {
  static auto* const real = libc<decltype(::sendmsg)>("sendmsg");
  return moved(real(file, message, flags));
}
ssize_t recvmsg(int file, msghdr* message, int flags) {
  static auto* const real = libc<decltype(::recvmsg)>("recvmsg");
  return moved(real(file, message, flags));
}
ssize_t send(int file, const void* from, size_t count, int flags) {
  static auto* const real = libc<decltype(::send)>("send");
  return moved(real(file, from, count, flags));
}
ssize_t recv(int file, void* to, size_t count, int flags) {
  static auto* const real = libc<decltype(::recv)>("recv");
  return moved(real(file, to, count, flags));
}
ssize_t read(int file, void* to, size_t count) {
  static auto* const real = libc<decltype(::read)>("read");
  return moved(real(file, to, count));
}
ssize_t write(int file, const void* from, size_t count) {
  static auto* const real = libc<decltype(::write)>("write");
  return moved(real(file, from, count));
}
int poll(pollfd* files, nfds_t count, int timeout) {
  static auto* const real = libc<decltype(::poll)>("poll");
  return counted(real(files, count, timeout));
}
int epoll_wait(int file, epoll_event* events, int most, int timeout) {
  static auto* const real = libc<decltype(::epoll_wait)>("epoll_wait");
  return counted(real(file, events, most, timeout));
}
int epoll_ctl(int file, int what, int other, epoll_event* event) noexcept {
  static auto* const real = libc<decltype(::epoll_ctl)>("epoll_ctl");
  ++calls;
  return real(file, what, other, event);
}
int timerfd_settime(int file, int flags, const itimerspec* next_time,
                    itimerspec* last) noexcept {
  static auto* const real =
      libc<decltype(::timerfd_settime)>("timerfd_settime");
  ++calls;
  return real(file, flags, next_time, last);
}

}  // extern "C"

void* operator new(std::size_t count) {
  ++allocations;
  if (void* const memory = std::malloc(count > 0 ? count : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace sluice {

SystemCalls SystemCalls::operator-(const SystemCalls& other) const {
  return {.calls = calls - other.calls,
          .bytes = bytes - other.bytes,
          .wake_ups = wake_ups - other.wake_ups,
          .allocations = allocations - other.allocations};
}

SystemCalls system_calls_so_far() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  return {.calls = ::calls,
          .bytes = ::bytes,
          .wake_ups = used.ru_nvcsw,
          .allocations = ::allocations};
}

}  // namespace sluice
