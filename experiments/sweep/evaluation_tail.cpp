#include "experiments/sweep/evaluation_tail.h"

#include <fstream>
#include <utility>

#include <sys/stat.h>

namespace sluice {

EvaluationTail::EvaluationTail(std::string run_folder)
    : path_(std::move(run_folder) + "/metrics.jsonl") {}

std::vector<Record> EvaluationTail::next() {
  std::vector<Record> found;
  struct stat status = {};
  if (::stat(path_.c_str(), &status) != 0) return found;
  // A run that is continued writes the file anew.
  if (std::exchange(file_, status.st_ino) != status.st_ino) at_ = 0;
  if (status.st_size <= at_) return found;
  std::ifstream file(path_);
  file.seekg(at_);
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // it is being written
    at_ += static_cast<std::streamoff>(line.size()) + 1;
    if (line.find("\"evaluation\"") == std::string::npos) continue;
    Record record = record_from_json(line);
    if (record.text("kind") != "evaluation" || record.integer("turn") <= turn_)
      continue;
    turn_ = record.integer("turn");
    found.push_back(std::move(record));
  }
  return found;
}

}  // namespace sluice
