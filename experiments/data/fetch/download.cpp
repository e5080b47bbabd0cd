#include "experiments/data/fetch/download.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/error.h"

namespace sluice {
namespace {

constexpr long kConnectSeconds = 30;
constexpr long kSilentSeconds = 60;  // at less than a byte per second
constexpr long kRangeNotSatisfiable = 416;
constexpr long kPartialContent = 206;

struct FreeCurl {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};

std::string error_text(int code) {
  return std::generic_category().message(code);
}

[[noreturn]] void fail_writing(const std::string& path, int code) {
  throw UserError("{}: can't be written: {}", path, error_text(code));
}

/// The file that is being filled, locked against another process.
class PartialFile {
 public:
  explicit PartialFile(std::string path)
      : path_(std::move(path)),
        descriptor_(::open(path_.c_str(),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) fail_writing(path_, errno);
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      ::close(descriptor_);
      throw UserError("{}: another process is downloading it", path_);
    }
  }
  /// Removes a file that stayed empty.
  ~PartialFile() {
    struct stat status = {};
    if (::fstat(descriptor_, &status) == 0 && status.st_size == 0)
      ::unlink(path_.c_str());
    ::close(descriptor_);
  }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::int64_t size() const {
    struct stat status = {};
    if (::fstat(descriptor_, &status) != 0) fail_writing(path_, errno);
    return status.st_size;
  }
  /// Empties the file; false with errno when that fails, as below.
  bool empty() { return ::ftruncate(descriptor_, 0) == 0; }
  bool append(const char* data, std::size_t bytes) {
    while (bytes > 0) {
      const ssize_t written = ::write(descriptor_, data, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      data += written;
      bytes -= static_cast<std::size_t>(written);
    }
    return true;
  }
  void sync() {
    if (::fsync(descriptor_) != 0) fail_writing(path_, errno);
  }

 private:
  std::string path_;
  int descriptor_;
};

/// One HTTP request.
class Transfer {
 public:
  Transfer(const std::string& url, PartialFile& file, std::int64_t bytes,
           const DownloadProgress& progress)
      : file_(file),
        bytes_(bytes),
        progress_(progress),
        here_(file.size()),
        curl_(curl_easy_init()) {
    SLUICE_CHECK(curl_ != nullptr, "libcurl can't be started");
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, kSilentSeconds);
    set(CURLOPT_USERAGENT, "sluice");
    set(CURLOPT_ERRORBUFFER, message_.data());
    set(CURLOPT_WRITEFUNCTION, &Transfer::receive);
    set(CURLOPT_WRITEDATA, this);
    // CURLOPT_RANGE: CURLOPT_RESUME_FROM gives up when the server sends the
    // whole file.
    range_ = fmt::format("{}-", here_);
    if (here_ > 0) set(CURLOPT_RANGE, range_.c_str());
  }

  CURLcode perform() { return curl_easy_perform(curl_.get()); }

  long status() const {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  int write_error() const { return write_error_; }
  bool is_too_long() const { return too_long_; }
  std::string message(CURLcode code) const {
    return message_[0] != 0 ? message_.data() : curl_easy_strerror(code);
  }

 private:
  template <class Value>
  void set(CURLoption option, Value value) {
    SLUICE_CHECK(curl_easy_setopt(curl_.get(), option, value) == CURLE_OK,
                 "libcurl doesn't take option {}", static_cast<int>(option));
  }

  /// Called by libcurl, which no exception may pass: fewer bytes end it.
  static std::size_t receive(char* data, std::size_t, std::size_t bytes,
                             void* transfer) {
    try {
      return static_cast<Transfer*>(transfer)->take(data, bytes) ? bytes : 0;
    } catch (const std::exception&) {
      return 0;
    }
  }

  bool take(const char* data, std::size_t bytes) {
    if (!began_ && status() != kPartialContent && here_ > 0) {
      if (!file_.empty()) return stop(errno);
      here_ = 0;
    }
    began_ = true;
    too_long_ = here_ + static_cast<std::int64_t>(bytes) > bytes_;
    if (too_long_) return false;
    if (!file_.append(data, bytes)) return stop(errno);
    here_ += static_cast<std::int64_t>(bytes);
    progress_(here_, bytes_);
    return true;
  }

  bool stop(int write_error) {
    write_error_ = write_error;
    return false;
  }

  PartialFile& file_;
  std::int64_t bytes_;
  const DownloadProgress& progress_;
  std::int64_t here_;
  bool began_ = false;
  bool too_long_ = false;
  int write_error_ = 0;
  std::string range_;
  std::array<char, CURL_ERROR_SIZE> message_ = {};
  std::unique_ptr<CURL, FreeCurl> curl_;
};

/// "; 5 of 9 bytes are kept, ..." when there are any.
std::string kept(std::int64_t here, std::int64_t bytes) {
  if (here == 0) return "";
  return fmt::format(
      "; {} of {} bytes are kept, and the same command goes on from there",
      here, bytes);
}

[[noreturn]] void fail(const std::string& url, const std::string& path,
                       const Transfer& transfer, CURLcode code,
                       std::int64_t here, std::int64_t bytes) {
  if (transfer.write_error() != 0) {
    throw UserError("{}: can't be written: {}{}", path,
                    error_text(transfer.write_error()), kept(here, bytes));
  }
  if (transfer.is_too_long()) {
    throw UserError("{}: is longer than the published file, of {} bytes", url,
                    bytes);
  }
  if (code == CURLE_HTTP_RETURNED_ERROR) {
    throw UserError("{}: the server answered with status {}", url,
                    transfer.status());
  }
  throw UserError("{}: {}{}", url, transfer.message(code), kept(here, bytes));
}

}  // namespace

void download(const std::string& url, const std::string& path,
              std::int64_t bytes, const DownloadProgress& progress) {
  PartialFile file(path);
  auto transfer = std::make_unique<Transfer>(url, file, bytes, progress);
  CURLcode code = transfer->perform();
  if (transfer->status() == kRangeNotSatisfiable && file.size() > 0) {
    if (!file.empty()) fail_writing(path, errno);
    transfer = std::make_unique<Transfer>(url, file, bytes, progress);
    code = transfer->perform();
  }
  if (code != CURLE_OK) fail(url, path, *transfer, code, file.size(), bytes);
  if (file.size() < bytes) {
    throw UserError("{}: it ended too early{}", url, kept(file.size(), bytes));
  }
  file.sync();
}

}  // namespace sluice
