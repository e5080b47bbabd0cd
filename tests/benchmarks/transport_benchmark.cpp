// How fast messages go from one process to another: every transport against
// plain blocking sockets and against memcpy.
//
// usage: transport_benchmark [PASSES] [LANE]
//
// In a pass every lane carries messages of every size, one after the other, so
// that all see the same machine; a ratio is the median of those taken within
// the passes, its range in brackets. The two processes are on two cores. The
// second table takes the CPU time of the busier process, all its threads and
// the kernel's work for it included, for the time: where each has a core to
// itself that is nearly the same, and on a busy machine it is what still means
// something. The slots row moves no bytes: its "GB/s" are those of a tensor
// that its producer wrote in place.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "tests/benchmarks/ratios.h"
#include "tests/benchmarks/transport_lanes.h"
#include "transport/links/file_descriptor.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kSizes[] = {4 * kKiB, 64 * kKiB, kMiB, 4 * kMiB,
                                  16 * kMiB};
constexpr std::size_t kShortSizes[] = {64, 4 * kKiB};
constexpr int kPings = 200;
// Longer than anybody looks before it sleeps.
constexpr auto kPause = std::chrono::microseconds(300);
constexpr char kAnchor[] = "raw unix";

// What the child's descriptors are called there.
constexpr int kControl = 3;
constexpr int kRawUnix = 4;
constexpr int kRawTcp = 5;

enum class Task : std::uint32_t { stream, ping, end };

struct Order {
  Task task = Task::end;
  std::uint32_t lane = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

template <class T>
void write_to(int file, const T& value) {
  if (::write(file, &value, sizeof value) != sizeof value) {
    throw UserError("the other process is gone");
  }
}

template <class T>
T read_from(int file) {
  T value{};
  if (::read(file, &value, sizeof value) != sizeof value) {
    throw UserError("the other process is gone");
  }
  return value;
}

std::pair<FileDescriptor, FileDescriptor> unix_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw UserError("no socket pair can be made");
  }
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

FileDescriptor tcp_socket() {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return socket;
}

std::pair<FileDescriptor, FileDescriptor> tcp_pair() {
  const FileDescriptor listener = tcp_socket();
  FileDescriptor caller = tcp_socket();
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (::bind(listener.get(), general, length) != 0 ||
      ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), general, &length) != 0 ||
      ::connect(caller.get(), general, length) != 0) {
    throw UserError("no TCP connection over loopback can be made");
  }
  FileDescriptor called(
      ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return {std::move(caller), std::move(called)};
}

std::vector<NamedLane> plain_lanes(int raw_unix, int raw_tcp) {
  std::vector<NamedLane> lanes;
  lanes.push_back({"memcpy", memcpy_lane()});
  lanes.push_back({kAnchor, socket_lane(raw_unix)});
  lanes.push_back({"raw tcp", socket_lane(raw_tcp)});
  return lanes;
}

void append(std::vector<NamedLane>& lanes, std::vector<NamedLane> more) {
  std::move(more.begin(), more.end(), std::back_inserter(lanes));
}

// Processor time of all this process's threads, the kernel's copies included.
double cpu_seconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// This thread stays on the place-th core that it may use, so that the two
// processes never share one, as two blocks that compute don't. I/O threads go
// where there is room.
void stay_on_core(int place) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ::sched_getaffinity(0, sizeof allowed, &allowed);
  if (CPU_COUNT(&allowed) < 2) return;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || place-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// The other process: answers requests until the end.
void serve(const std::vector<std::string>& addresses) {
  IoThread io;
  std::vector<NamedLane> lanes = plain_lanes(kRawUnix, kRawTcp);
  append(lanes, join_links(io, addresses));
  stay_on_core(1);
  for (;;) {
    const Order order = read_from<Order>(kControl);
    if (order.task == Task::end) return;
    Lane& lane = *lanes.at(order.lane).lane;
    write_to(kControl, 'r');
    const double before = cpu_seconds();
    for (std::uint64_t i = 0; i < order.count; ++i) {
      lane.receive(order.bytes);
      if (order.task == Task::ping) lane.send(order.bytes);
    }
    write_to(kControl, cpu_seconds() - before);
  }
}

class Child {
 public:
  Child(int control, int raw_unix, int raw_tcp,
        const std::vector<std::string>& addresses) {
    std::vector<std::string> arguments{"transport_benchmark", "--serve"};
    arguments.insert(arguments.end(), addresses.begin(), addresses.end());
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    // First out of the way of where they shall be.
    for (const auto& [from, to] : {std::pair{control, 103},
                                   {raw_unix, 104},
                                   {raw_tcp, 105},
                                   {103, kControl},
                                   {104, kRawUnix},
                                   {105, kRawTcp}}) {
      ::posix_spawn_file_actions_adddup2(&files, from, to);
    }
    const int failure = ::posix_spawn(&pid_, "/proc/self/exe", &files, nullptr,
                                      argv.data(), environ);
    ::posix_spawn_file_actions_destroy(&files);
    if (failure != 0) throw UserError("no second process can be started");
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { ::waitpid(pid_, nullptr, 0); }

 private:
  pid_t pid_ = -1;
};

// Messages of a measurement: some 20 ms on a socket.
std::uint64_t count_of(std::size_t bytes) {
  return std::clamp<std::uint64_t>(128 * kMiB / bytes, 16, 8192);
}

struct StreamCost {
  double seconds = 0;  // until the other process had all messages
  double cpu = 0;      // of the busier process
};

StreamCost stream(Lane& lane, int control, std::uint32_t index,
                  std::size_t bytes) {
  const std::uint64_t count = count_of(bytes);
  const bool alone = index == 0;  // memcpy
  if (!alone) {
    write_to(control, Order{Task::stream, index, bytes, count});
    read_from<char>(control);
  }
  const Clock::time_point start = Clock::now();
  const double before = cpu_seconds();
  for (std::uint64_t i = 0; i < count; ++i) lane.send(bytes);
  const double theirs = alone ? 0 : read_from<double>(control);
  return {.seconds = Seconds(Clock::now() - start).count(),
          .cpu = std::max(cpu_seconds() - before, theirs)};
}

// Microseconds one way, the median.
double ping(Lane& lane, int control, std::uint32_t index, std::size_t bytes,
            std::chrono::microseconds pause) {
  write_to(control, Order{Task::ping, index, bytes, kPings});
  read_from<char>(control);
  std::vector<double> times;
  for (int i = 0; i < kPings; ++i) {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const Clock::time_point start = Clock::now();
    lane.send(bytes);
    lane.receive(bytes);
    times.push_back(Seconds(Clock::now() - start).count() * 1e6 / 2);
  }
  read_from<double>(control);
  return median(std::move(times));
}

// Samples of every lane: one value per pass.
using Samples = std::vector<std::vector<double>>;

std::string ratio_text(const Samples& samples, std::size_t lane) {
  Ratios ratios;
  for (std::size_t pass = 0; pass < samples[lane].size(); ++pass)
    ratios.values.push_back(samples[lane][pass] / samples[1][pass]);
  return ratios.text_with_range();
}

void print_table(const std::string& title, const std::vector<NamedLane>& lanes,
                 const std::vector<std::string>& columns,
                 const std::vector<Samples>& all) {
  fmt::print("\n{}\n{:<16}", title, "");
  for (const std::string& column : columns) fmt::print(" {:<29}", column);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (all.front()[lane].empty()) continue;
    fmt::print("\n{:<16}", lanes[lane].name);
    for (const Samples& samples : all) {
      fmt::print(" {:<29}", fmt::format("{:.2f} = {}", median(samples[lane]),
                                        ratio_text(samples, lane)));
    }
  }
  fmt::print("\n");
  std::fflush(stdout);
}

std::string text_of(std::size_t bytes) {
  if (bytes >= kMiB) return fmt::format("{} MiB", bytes / kMiB);
  return bytes >= kKiB ? fmt::format("{} KiB", bytes / kKiB)
                       : fmt::format("{} B", bytes);
}

void compare(std::vector<NamedLane>& lanes, int control, int passes,
             const std::string& only) {
  const auto wanted = [&](std::size_t lane) {
    return lane <= 1 || only.empty() || lanes[lane].name == only;
  };
  std::vector<std::string> columns;
  std::vector<Samples> rates(std::size(kSizes), Samples(lanes.size()));
  std::vector<Samples> cpu_rates = rates;
  std::vector<Samples> times(2 * std::size(kShortSizes), Samples(lanes.size()));
  for (int pass = -1; pass < passes; ++pass) {  // the first only warms up
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      if (!wanted(lane)) continue;
      Lane& each = *lanes[lane].lane;
      const auto index = static_cast<std::uint32_t>(lane);
      for (std::size_t i = 0; i < std::size(kSizes); ++i) {
        const StreamCost taken = stream(each, control, index, kSizes[i]);
        if (pass < 0) continue;
        const double gigabytes = static_cast<double>(kSizes[i]) *
                                 static_cast<double>(count_of(kSizes[i])) / 1e9;
        rates[i][lane].push_back(gigabytes / taken.seconds);
        cpu_rates[i][lane].push_back(gigabytes / taken.cpu);
      }
      for (std::size_t i = 0; lane > 0 && i < times.size(); ++i) {
        const double taken = ping(each, control, index, kShortSizes[i / 2],
                                  i % 2 == 0 ? kPause.zero() : kPause);
        if (pass >= 0) times[i][lane].push_back(taken);
      }
    }
  }
  for (const std::size_t size : kSizes) columns.push_back(text_of(size));
  print_table(
      fmt::format("GB/s = of {} in the same pass, {} passes", kAnchor, passes),
      lanes, columns, rates);
  print_table("GB per second of CPU of the busier process = of the same", lanes,
              columns, cpu_rates);
  columns.clear();
  for (const std::size_t size : kShortSizes) {
    columns.push_back(text_of(size));
    columns.push_back(text_of(size) + ", both asleep before");
  }
  print_table("microseconds one way = of " + std::string(kAnchor), lanes,
              columns, times);
}

void run(int passes, const std::string& only) {
  IoThread io;
  auto [control, childs_control] = unix_pair();
  auto [raw_unix, childs_unix] = unix_pair();
  auto [raw_tcp, childs_tcp] = tcp_pair();
  LinkInvitation invitation(io);
  const Child child(childs_control.get(), childs_unix.get(), childs_tcp.get(),
                    invitation.addresses());
  childs_control = FileDescriptor();
  childs_unix = FileDescriptor();
  childs_tcp = FileDescriptor();
  std::vector<NamedLane> lanes =
      plain_lanes(raw_unix.release(), raw_tcp.release());
  append(lanes, invitation.accept());
  stay_on_core(0);
  compare(lanes, control.get(), passes, only);
  write_to(control.get(), Order{});
}

}  // namespace
}  // namespace sluice

int main(int count, char** arguments) {
  const std::vector<std::string> all(arguments + 1, arguments + count);
  try {
    if (!all.empty() && all[0] == "--serve") {
      sluice::serve({all.begin() + 1, all.end()});
    } else {
      sluice::run(all.empty() ? 9 : std::max(1, std::stoi(all[0])),
                  all.size() > 1 ? all[1] : "");
    }
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
}
