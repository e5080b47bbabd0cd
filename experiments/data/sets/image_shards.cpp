#include "experiments/data/sets/image_shards.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/files/shard_files.h"
#include "experiments/data/files/tar_file.h"
#include "experiments/data/samples/validation.h"
#include "experiments/data/sets/image_files.h"
#include "lib/base/error.h"

namespace sluice {
namespace {

/// More classes than any set of images has: a larger label is an error, and
/// each has a count.
constexpr std::int64_t kMostLabels = 1'000'000;

using SharedTar = std::shared_ptr<const RawFile>;

/// A member's name: "folder/000123.seg.png" is a part "seg.png" of the sample
/// "folder/000123".
struct PartName {
  std::string_view key;
  std::string part;  ///< in small letters
};

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::transform(
      small.begin(), small.end(), small.begin(),
      [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

PartName part_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t from = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = std::min(name.find('.', from), name.size());
  return {name.substr(0, dot),
          in_small_letters(name.substr(std::min(dot + 1, name.size())))};
}

bool is_image_part(std::string_view part) {
  return part == "jpg" || part == "jpeg" || part == "png";
}

std::int64_t label_in(const RawFile& tar, const TarMember& member) {
  constexpr std::uint64_t kMostDigits = 32;
  std::string text(std::min(member.bytes, kMostDigits), '\0');
  tar.read(member.begin, std::as_writable_bytes(std::span(text)));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
    text.pop_back();
  std::int64_t label = -1;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size() || label < 0 ||
      label >= kMostLabels)
    throw UserError(
        "{}:{}: expected the number of a class, from 0; data.label names the "
        "part that has it",
        tar.path(), member.name);
  return label;
}

struct TarSample {
  std::string key = {};
  std::optional<TarMember> image = {};
  std::optional<std::int64_t> label = {};
};

/// Takes the parts of samples, which lie one behind the other.
class SampleCollector {
 public:
  SampleCollector(std::string label_part, std::vector<ImageFile>& files,
                  SkippedFiles& left_out)
      : label_part_(std::move(label_part)),
        files_(files),
        left_out_(left_out) {}

  void take_all(const std::string& path) {
    const auto tar = std::make_shared<const RawFile>(path);
    const std::size_t before = files_.size();
    for (const TarMember& member : members_of(*tar)) take(tar, member);
    finish(tar);
    if (files_.size() == before)
      throw UserError(
          "{}: has no image; parts of samples are named KEY.jpg (or .jpeg, "
          ".png) and KEY.{}",
          path, label_part_);
  }

 private:
  void take(const SharedTar& tar, const TarMember& member) {
    const PartName name = part_name(member.name);
    if (name.key != sample_.key) finish(tar);
    sample_.key = name.key;
    const bool is_label = name.part == label_part_;
    const bool is_image = is_image_part(name.part);
    if ((is_label && sample_.label) || (is_image && sample_.image))
      throw UserError(
          "{}:{}: its sample {} has such a part already; keys differ from "
          "sample to sample",
          tar->path(), member.name, sample_.key);
    if (is_label)
      sample_.label = label_in(*tar, member);
    else if (is_image)
      sample_.image = member;
    else
      left_out_.add("." + name.part);
  }

  void finish(const SharedTar& tar) {
    const TarSample sample = std::exchange(sample_, {});
    if (sample.image && !sample.label)
      throw UserError(
          "{}:{}: has no {}.{} beside it, the number of its class; data.label "
          "names the part that has it",
          tar->path(), sample.image->name, sample.key, label_part_);
    if (sample.label && !sample.image) left_out_.add("class| without an image");
    if (!sample.image) return;
    files_.push_back({.place = {.path = sample.image->name,
                                .tar = tar,
                                .begin = sample.image->begin,
                                .bytes = sample.image->bytes},
                      .label = *sample.label});
  }

  const std::string label_part_;
  std::vector<ImageFile>& files_;
  SkippedFiles& left_out_;
  TarSample sample_;
};

struct ShardOptions {
  std::string folder = {};
  std::vector<std::string> train = {};
  std::vector<std::string> validation = {};
  std::vector<std::string> test = {};
  std::string label = "cls";
  std::int64_t classes = 0;

  void describe(Fields& fields) {
    fields.key("folder", folder,
               {.text = "folder of the tar files: beside the config, below "
                        "data.root, or absolute"});
    fields.key("train", train,
               {.text = "tar files in it for training: a name or a list, where "
                        "\"train-*.tar\" and \"train-{000..146}.tar\" are "
                        "several"});
    fields.key("test", test, {.text = "likewise for the test"});
    fields.key("validation_files", validation,
               {.text = "likewise for the validation split; []: none, or what "
                        "data.validation holds back"});
    fields.key("label", label,
               {.text = "ending of the part of a sample that has its class, a "
                        "number in digits"});
    fields.key("classes", classes,
               {.text = "0: the largest class of all files and 1",
                .min = 0,
                .max = kMostLabels});
    if (label.starts_with('.')) label.erase(0, 1);
    label = in_small_letters(label);
    if (label.empty() || is_image_part(label))
      fields.reject("label", "must be the ending of the class, as \"cls\"");
    for (const auto& [name, files] :
         {std::pair{"train", &train}, std::pair{"test", &test}})
      if (files->empty()) fields.reject(name, "must name a tar file");
    if (folder.empty())
      fields.reject("folder", "names no folder; give the one with tar files");
  }
};

std::vector<ImageFile> images_in(const std::string& folder,
                                 const std::vector<std::string>& names,
                                 const std::string& label_part,
                                 SkippedFiles& left_out) {
  std::vector<ImageFile> files;
  SampleCollector collector(label_part, files, left_out);
  const std::vector<std::string> paths = find_shards(folder, names);
  for (const std::string& path : paths) collector.take_all(path);
  return files;
}

/// Throws UserError where a label is none of the classes that are stated.
std::int64_t classes_of(const ImageFiles& files, std::int64_t stated) {
  std::int64_t classes = 0;
  for (const auto* split : {&files.train, &files.test, &files.validation})
    for (const ImageFile& file : *split) {
      classes = std::max(classes, file.label + 1);
      if (stated > 0 && classes > stated)
        throw UserError("{}: has the class {}, and data.classes = {}",
                        file.place.name(), file.label, stated);
    }
  if (stated > 0) return stated;
  if (classes < 2)
    throw UserError(
        "{}: all its images have the class 0, so that every answer would be "
        "right",
        files.train.front().place.file());
  return classes;
}

ImageFiles files_in(const std::string& folder, const ShardOptions& options) {
  ImageFiles files;
  const auto images = [&](const std::vector<std::string>& names) {
    return images_in(folder, names, options.label, files.left_out);
  };
  files.train = images(options.train);
  files.test = images(options.test);
  files.validation = images(options.validation);
  const std::int64_t classes = classes_of(files, options.classes);
  for (std::int64_t label = 0; label < classes; ++label)
    files.classes.push_back(fmt::to_string(label));
  return files;
}

}  // namespace

MakeDataSet configure_image_shards(Fields& fields) {
  ShardOptions shards;
  ImageFilesOptions options;
  shards.describe(fields);
  options.describe_size(fields);
  options.describe_reading(fields);
  describe_normalisation(fields, options.mean, options.std);
  const Augmentation augmentation = read_augmentation(fields);
  const ValidationOptions validation = read_validation(fields);
  if (validation.amount != 0 && !shards.validation.empty())
    fields.reject("validation",
                  "holds training images back, but validation_files has a "
                  "validation split: leave one of them out");
  return [=](const std::string& root) {
    ImageFiles files = files_in(find_data_folder(root, shards.folder), shards);
    files.train_is_evaluated = validation.amount != 0;
    return with_validation(
        image_files_data_set(options, augmentation, std::move(files)),
        validation);
  };
}

}  // namespace sluice
