#pragma once

#include <ios>
#include <memory>
#include <ostream>
#include <streambuf>
#include <string>

namespace sluice {

/// A file stream as std::ofstream, but processes that this one starts don't
/// inherit the file.
class OutputFile : public std::ostream {
 public:
  /// Makes a stream that has no file yet.
  OutputFile();
  /// Truncates, or with std::ios::app appends. What fails shows in the state of
  /// the stream, and in errno.
  explicit OutputFile(const std::string& path, std::ios::openmode mode = {});
  ~OutputFile() override;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void open(const std::string& path, std::ios::openmode mode = {});
  void close();

 private:
  std::unique_ptr<std::streambuf> buffer_;
};

}  // namespace sluice
