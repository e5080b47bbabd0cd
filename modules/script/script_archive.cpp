#include "modules/script/script_archive.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <vector>

#include <caffe2/serialize/inline_container.h>

#include "lib/base/printable.h"
#include "modules/script/script_pickle.h"
#include "modules/script/script_refusal.h"
#include "modules/script/script_source.h"

namespace sluice {
namespace {

using Reader = caffe2::serialize::PyTorchStreamReader;

/// The sources of a network; those of the largest of torchvision have 0.3 MB.
constexpr std::uint64_t kMostSourceBytes = std::uint64_t{4} << 20;
/// Most bytes of what else is packed in such a file: TorchScript stores tensors
/// as they are.
constexpr std::uint64_t kMostPackedBytes = std::uint64_t{64} << 20;

/// The text in lower case: the archive's own look-up doesn't tell the cases
/// apart.
std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

class ArchiveWalk {
 public:
  ArchiveWalk(
      const std::shared_ptr<caffe2::serialize::ReadAdapterInterface>& bytes,
      const std::string& file)
      : reader_(bytes), file_size_(bytes->size()), file_(file) {}

  void check() {
    const std::vector<std::string> records = reader_.getAllRecords();
    check_sizes(records);
    // torch.save() makes archives too, of any Python object.
    if (!reader_.hasRecord("constants.pkl") && !reader_.hasRecord("model.json"))
      throw std::runtime_error("it has no constants.pkl, which scripts have");
    for (const std::string& record : records) {
      const std::string name = lower(record);
      if (name == "model.json")
        refuse_script(file_, "it is of PyTorch 1.1 or older: save it anew");
      if (name.ends_with(".py"))
        check_script_source(text_of(record), file_, printable(record));
      if (name == "data.pkl" || name == "constants.pkl") check_pickle(record);
    }
  }

 private:
  void check_sizes(const std::vector<std::string>& records) {
    std::set<std::string> seen;
    std::uint64_t all = 0;
    std::uint64_t sources = 0;
    for (const std::string& record : records) {
      if (!seen.insert(lower(record)).second)
        refuse_script(file_, "it has the record '{}' twice", printable(record));
      const std::uint64_t size = reader_.getRecordSize(record);
      all += std::min(size, ~std::uint64_t{0} - all);
      if (lower(record).ends_with(".py")) sources += size;
    }
    if (all > file_size_ + kMostPackedBytes)
      refuse_script(file_, "it has {} bytes, and unpacks to {}", file_size_,
                    all);
    if (sources > kMostSourceBytes)
      refuse_script(file_, "its sources have {} bytes, more than {}", sources,
                    kMostSourceBytes);
  }

  std::string text_of(const std::string& record) {
    const auto [bytes, size] = reader_.getRecord(record);
    return {static_cast<const char*>(bytes.get()), size};
  }

  void check_pickle(const std::string& record) {
    const std::string folder = record.substr(0, record.rfind('.')) + "/";
    check_script_pickle(
        text_of(record), file_, printable(record),
        [&](const std::string& key) -> std::uint64_t {
          const std::string name = folder + key;
          return reader_.hasRecord(name) ? reader_.getRecordSize(name) : 0;
        });
  }

  Reader reader_;
  std::uint64_t file_size_;
  const std::string& file_;
};

}  // namespace

void check_script_archive(
    const std::shared_ptr<caffe2::serialize::ReadAdapterInterface>& bytes,
    const std::string& file) {
  ArchiveWalk(bytes, file).check();
}

}  // namespace sluice
