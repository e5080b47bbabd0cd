#include "experiments/runs/folder/run_reader.h"

#include <fstream>

#include <sys/stat.h>

#include "lib/base/error.h"

namespace sluice {

std::string metrics_of_run(const std::string& folder) {
  return folder + "/metrics.jsonl";
}

std::string rest_of_metrics(const std::string& folder) {
  return folder + "/metrics-rest.jsonl";
}

Record RunReader::record_in(const std::string& line) const {
  try {
    return record_from_json(line);
  } catch (const UserError& error) {
    throw UserError(
        "{}:{}: is damaged ({}); remove the line, or do the run again with "
        "--overwrite",
        path_, line_, error.what());
  }
}

void RunReader::read(const std::function<void(const Record&)>& take) {
  struct stat status = {};
  if (::stat(path_.c_str(), &status) != 0) return;
  if (std::exchange(file_, status.st_ino) != status.st_ino) at_ = line_ = 0;
  std::ifstream file(path_);
  file.seekg(at_);
  is_whole_ = true;
  for (std::string line; std::getline(file, line);) {
    is_whole_ = !file.eof();
    if (!is_whole_) return;
    at_ += static_cast<std::streamoff>(line.size()) + 1;
    ++line_;
    take(record_in(line));
  }
  if (file.bad() || !file.eof()) throw UserError("{}: can't be read", path_);
}

}  // namespace sluice
