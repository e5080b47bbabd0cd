#include "experiments/planner/other_load.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace sluice::planner {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         1e-6 * static_cast<double>(time.tv_usec);
}

double seconds_used_by(int whom) {
  rusage usage = {};
  ::getrusage(whom, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double own_seconds() {
  return seconds_used_by(RUSAGE_SELF) + seconds_used_by(RUSAGE_CHILDREN);
}

double others_seconds() {
  std::ifstream file("/proc/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const double busy =
      busy_seconds(text, static_cast<double>(::sysconf(_SC_CLK_TCK)));
  return busy > 0 ? busy - own_seconds() : 0;
}

}  // namespace

double busy_seconds(std::string_view proc_stat, double ticks_per_second) {
  std::istringstream words{std::string(proc_stat)};
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0,
         soft_interrupts = 0, stolen = 0;
  words >> name >> user >> nice >> system >> idle >> waiting >> interrupts >>
      soft_interrupts >> stolen;
  if (!words || name != "cpu") return 0;
  return (user + nice + system + interrupts + soft_interrupts + stolen) /
         ticks_per_second;
}

OtherLoad::OtherLoad() : others_before_(others_seconds()) {}

double OtherLoad::cores() const {
  // Both are rounded to ticks, so that it might be a little below zero.
  return std::max(0.0, others_seconds() - others_before_) /
         seconds_since(start_);
}

}  // namespace sluice::planner
