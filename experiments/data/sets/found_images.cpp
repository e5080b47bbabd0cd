#include "experiments/data/sets/found_images.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "lib/base/crc32c.h"
#include "lib/base/error.h"
#include "lib/base/printable.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// A larger training split is not decoded before the first turn.
constexpr std::size_t kMostWalkedAhead = 50'000;

std::vector<ImagePlace> places_of(std::span<const ImageFile> files) {
  std::vector<ImagePlace> places;
  places.reserve(files.size());
  for (const ImageFile& file : files) places.push_back(file.place);
  return places;
}

std::string plural(std::int64_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

/// "cat 3, dog 2", or of many classes "3 to 5 each".
std::string counts_text(const std::vector<std::string>& classes,
                        const std::vector<std::int64_t>& counts) {
  constexpr std::size_t kMostNamed = 10;
  if (classes.size() > kMostNamed) {
    const auto [least, most] =
        std::minmax_element(counts.begin(), counts.end());
    return *least == *most ? fmt::format("{} each", *least)
                           : fmt::format("{} to {} each", *least, *most);
  }
  std::string text;
  for (std::size_t i = 0; i < classes.size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", printable(classes[i]),
                        counts[i]);
  return text;
}

struct stat entry_of(const std::string& path) {
  struct stat entry = {};
  if (::stat(path.c_str(), &entry) != 0)
    throw UserError(
        "{}: can't be read: {}; correct who may read it, or take it out of its "
        "folder",
        path, std::error_code(errno, std::generic_category()).message());
  return entry;
}

}  // namespace

ImageSplitFiles::ImageSplitFiles(std::string name, std::vector<ImageFile> files,
                                 bool is_walked_ahead)
    : name_(std::move(name)),
      files_(std::move(files)),
      is_walked_ahead_(is_walked_ahead) {}

const WalkSummary& ImageSplitFiles::summary() const {
  std::call_once(walked_,
                 [&] { summary_ = summary_of_walk(places_of(files_)); });
  return summary_;
}

void ImageSplitFiles::check() const {
  const WalkSummary& seen = summary();
  if (seen.damaged.empty()) return;
  throw UserError(
      "{}; of {} {} can't be decoded: `sluice data check CONFIG` names all, "
      "data.on_bad = \"skip\" leaves them out",
      seen.damaged.front().damage, plural(std::ssize(files_), name_ + " image"),
      seen.damaged.size());
}

FoundImages::FoundImages(const ImageFilesOptions& options, ImageFiles files)
    : options_(options),
      classes_(std::move(files.classes)),
      left_out_(std::move(files.left_out)) {
  const bool train_is_walked =
      files.train_is_evaluated || files.train.size() <= kMostWalkedAhead;
  splits_.push_back(
      sound_part("train", std::move(files.train), train_is_walked));
  splits_.push_back(sound_part("test", std::move(files.test), true));
  splits_.push_back(
      sound_part("validation", std::move(files.validation), true));
  look_at_entries();
}

FoundImages::SplitFiles FoundImages::sound_part(const std::string& name,
                                                std::vector<ImageFile> files,
                                                bool is_walked_ahead) {
  if (!options_.leaves_out_damaged || files.empty())
    return std::make_shared<const ImageSplitFiles>(name, std::move(files),
                                                   is_walked_ahead);
  const WalkSummary seen = summary_of_walk(places_of(files));
  for (const WalkSummary::DamagedImage& each : seen.damaged) {
    ImageFile& file = files.at(static_cast<std::size_t>(each.index));
    damaged_.push_back(
        {.split = name, .path = file.place.name(), .damage = each.damage});
    file.place.path.clear();
  }
  std::erase_if(files,
                [](const ImageFile& file) { return file.place.path.empty(); });
  if (files.empty())
    throw UserError("{}; no image of {} can be decoded",
                    seen.damaged.front().damage, name);
  return std::make_shared<const ImageSplitFiles>(name, std::move(files),
                                                 is_walked_ahead);
}

/// Makes the listing: names without the folder, which may lie elsewhere on
/// another machine.
void FoundImages::look_at_entries() {
  std::uint32_t crc = 0;
  std::size_t count = 0;
  std::map<std::tuple<dev_t, ino_t, std::uint64_t>, const ImagePlace*> places;
  struct stat entry = {};
  const std::string* entered = nullptr;  // the file of that entry
  for (const SplitFiles& split : splits_)
    for (const ImageFile& file : split->files()) {
      const ImagePlace& place = file.place;
      if (entered == nullptr || *entered != place.file())
        entry = entry_of(place.file());
      entered = &place.file();
      const std::string line = fmt::format(
          "{}/{}/{} {}\n", split->name(), file.label,
          fs::path(place.path).filename().string(),
          place.tar ? place.bytes : static_cast<std::uint64_t>(entry.st_size));
      crc = crc32c(std::as_bytes(std::span(line)), crc);
      ++count;
      const auto [other, is_new] = places.emplace(
          std::tuple(entry.st_dev, entry.st_ino, place.begin), &place);
      if (is_new) continue;
      if (repeated_++ == 0)
        first_repeated_ = fmt::format("{} is {}", printable(place.name()),
                                      printable(other->second->name()));
    }
  listing_ = fmt::format("{} files, whose names and sizes have CRC-32C {:08x}",
                         count, crc);
}

std::string FoundImages::text_of(const ImageSplitFiles& split) const {
  std::vector<std::int64_t> counts(classes_.size());
  for (const ImageFile& file : split.files())
    ++counts.at(static_cast<std::size_t>(file.label));
  const auto there =
      std::ssize(counts) - std::count(counts.begin(), counts.end(), 0);
  return fmt::format(
      "{}: {} of {} ({})", split.name(),
      plural(std::ssize(split.files()), "image"),
      there == std::ssize(classes_)
          ? fmt::format("{} classes", there)
          : fmt::format("only {} of the {} classes", there, classes_.size()),
      counts_text(classes_, counts));
}

std::vector<std::string> FoundImages::clauses() const {
  std::vector<std::string> clauses;
  std::int64_t turned = 0;
  std::string unknown;
  for (const SplitFiles& split : splits_) {
    if (split->files().empty()) continue;
    clauses.push_back(text_of(*split));
    if (split->is_walked_ahead())
      turned += split->summary().turned;
    else
      unknown = fmt::format(", not counted in {}", split->name());
  }
  if (const std::string text = left_out_.text(); !text.empty())
    clauses.push_back("left out: " + text);
  if (!damaged_.empty())
    clauses.push_back(fmt::format(
        "left out as damaged: {} ({}{})", plural(std::ssize(damaged_), "image"),
        printable(fs::path(damaged_.front().path).filename().string()),
        damaged_.size() > 1 ? ", ..." : ""));
  if (repeated_ > 0)
    clauses.push_back(
        fmt::format("{} more than once, in classes or splits ({})",
                    plural(repeated_, "file"), first_repeated_));
  if (turned > 0 || !unknown.empty())
    clauses.push_back(fmt::format(
        "orientation tags: {} {}{}", plural(turned, "image"),
        options_.exif_orientation ? "turned by them"
                                  : "not turned (data.exif_orientation)",
        unknown));
  return clauses;
}

std::vector<FoundFile> FoundImages::walk() const {
  std::vector<FoundFile> found = damaged_;
  for (const SplitFiles& split : splits_) {
    const std::vector<ImagePlace> places = places_of(split->files());
    const std::vector<WalkedImage> images = walk_images(places);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const auto label = static_cast<std::size_t>(split->files()[i].label);
      found.push_back(
          {.split = split->name(),
           .path = places[i].name(),
           .what = fmt::format("{} {} {}x{} {}", label,
                               printable(classes_.at(label)), images[i].height,
                               images[i].width, images[i].orientation),
           .damage = images[i].damage});
    }
  }
  return found;
}

}  // namespace sluice
