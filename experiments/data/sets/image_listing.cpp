#include "experiments/data/sets/image_listing.h"

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "lib/base/error.h"
#include "lib/base/printable.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// Names that systems and programs make beside a user's files.
constexpr std::array<std::string_view, 6> kSystemFolders = {
    "__MACOSX",   "@eaDir",     "$RECYCLE.BIN", "System Volume Information",
    "lost+found", "__pycache__"};
constexpr std::array<std::string_view, 4> kSystemFiles = {
    "Thumbs.db", "ehthumbs.db", "desktop.ini", "Icon\r"};

template <std::size_t Size>
bool is_hidden(const std::string& name,
               const std::array<std::string_view, Size>& of_systems) {
  return name.starts_with(".") ||
         std::find(of_systems.begin(), of_systems.end(), name) !=
             of_systems.end();
}

std::string ending_of(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending;
}

bool is_image(const std::string& ending) {
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

/// Turns errors of the system into UserError, while `look` goes through a
/// folder.
template <class Look>
void look_into(const std::string& folder, Look look) {
  try {
    look();
  } catch (const fs::filesystem_error& error) {
    throw UserError("{}: can't be listed: {}", folder, error.code().message());
  }
}

/// Goes through a folder and those below it, each once.
class ImageListing {
 public:
  explicit ImageListing(SkippedFiles& left_out) : left_out_(left_out) {}

  std::vector<std::string> read(const std::string& folder) {
    enter(folder);
    while (!links_.empty()) {
      // Links in the order of their names, whatever the file system's order is.
      std::deque<fs::path> links;
      links.swap(links_);
      std::sort(links.begin(), links.end());
      for (const fs::path& link : links) enter(link);
    }
    std::sort(paths_.begin(), paths_.end());
    return std::move(paths_);
  }

 private:
  void enter(const fs::path& folder) {
    struct stat status = {};
    if (::stat(folder.c_str(), &status) != 0) {
      left_out_.add("broken link");
      return;
    }
    if (!entered_.emplace(status.st_dev, status.st_ino).second) {
      left_out_.add("link| to a folder that is read already");
      return;
    }
    std::vector<fs::path> below;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      std::error_code ignored;
      if (entry.is_directory(ignored))
        add_folder(entry, below);
      else
        add_file(entry);
    }
    std::sort(below.begin(), below.end());
    for (const fs::path& each : below) enter(each);
  }

  void add_folder(const fs::directory_entry& entry,
                  std::vector<fs::path>& below) {
    if (is_hidden(entry.path().filename().string(), kSystemFolders))
      left_out_.add("hidden folder");
    else if (entry.is_symlink())
      links_.push_back(entry.path());
    else
      below.push_back(entry.path());
  }

  void add_file(const fs::directory_entry& entry) {
    const std::string ending = ending_of(entry.path());
    std::error_code ignored;
    if (is_hidden(entry.path().filename().string(), kSystemFiles))
      left_out_.add("hidden file");
    else if (!entry.is_regular_file(ignored))
      left_out_.add(entry.is_symlink(ignored) ? "broken link"
                                              : "thing| that is no file");
    else if (is_image(ending))
      paths_.push_back(entry.path().string());
    else
      left_out_.add(ending.empty() ? "file| without an ending" : ending);
  }

  SkippedFiles& left_out_;
  std::vector<std::string> paths_;
  std::deque<fs::path> links_;
  std::set<std::pair<dev_t, ino_t>> entered_;
};

}  // namespace

std::string SkippedFiles::text() const {
  std::string text;
  for (const auto& [kind, count] : counts_) {
    const std::size_t ending = std::min(kind.find('|'), kind.size());
    const bool has_plural = count > 1 && !kind.starts_with(".");
    text +=
        fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", count,
                    printable(kind.substr(0, ending)), has_plural ? "s" : "",
                    kind.substr(std::min(ending + 1, kind.size())));
  }
  return text;
}

std::vector<std::string> folders_in(const std::string& folder,
                                    SkippedFiles& left_out) {
  std::vector<std::string> names;
  look_into(folder, [&] {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      std::string name = entry.path().filename().string();
      std::error_code ignored;
      if (!entry.is_directory(ignored)) {
        if (is_image(ending_of(entry.path())) && !name.starts_with("."))
          left_out.add("image| in no class");
      } else if (is_hidden(name, kSystemFolders)) {
        left_out.add("hidden folder");
      } else {
        names.push_back(std::move(name));
      }
    }
  });
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> image_files_in(const std::string& folder,
                                        SkippedFiles& left_out) {
  std::vector<std::string> paths;
  SkippedFiles here;
  look_into(folder, [&] {
    paths = ImageListing(left_out).read(folder);
    if (paths.empty()) ImageListing(here).read(folder);
  });
  if (!paths.empty()) return paths;
  const std::string others = here.text();
  throw UserError("{}: has no image (.png, .jpg or .jpeg){}", folder,
                  others.empty()
                      ? ""
                      : fmt::format("; there is: {}; convert images of other "
                                    "kinds",
                                    others));
}

}  // namespace sluice
