#include "experiments/data/sets/image_folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "experiments/data/files/data_files.h"
#include "experiments/data/samples/validation.h"
#include "experiments/data/sets/image_files.h"
#include "lib/base/error.h"
#include "lib/base/files/read_file.h"
#include "lib/base/random.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

std::string below(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

using Labels = std::map<std::string, std::int64_t, std::less<>>;

Labels labels_of(const std::vector<std::string>& classes) {
  Labels labels;
  for (const std::string& name : classes)
    labels.emplace(name, static_cast<std::int64_t>(labels.size()));
  return labels;
}

/// The files below `folder`, whose own folders are the names of classes.
std::vector<ImageFile> labelled_files(const std::string& folder,
                                      const Labels& labels,
                                      SkippedFiles& left_out) {
  std::vector<ImageFile> files;
  for (const std::string& name : folders_in(folder, left_out)) {
    const auto label = labels.find(name);
    if (label == labels.end())
      throw UserError("{}: is no class, as train has no folder '{}'",
                      below(folder, name), name);
    for (std::string& path : image_files_in(below(folder, name), left_out))
      files.push_back({{std::move(path)}, label->second});
  }
  if (files.empty())
    throw UserError("{}: has no folder; images lie in a folder for each class",
                    folder);
  return files;
}

/// The first of the folders that is there; "" when none is.
std::string first_there(const std::string& folder,
                        std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (fs::is_directory(below(folder, name))) return below(folder, name);
  return "";
}

/// Throws UserError for one class alone, of which every answer is right. No
/// class at all is refused by those who look for images.
void check_classes(const std::string& folder,
                   const std::vector<std::string>& classes) {
  if (classes.size() == 1)
    throw UserError(
        "{}: has one class only ('{}'), so that every answer would be right; "
        "images lie in a folder for each class, and there are two at least",
        folder, classes[0]);
}

/// Throws UserError where the folders are splits, not classes.
void check_no_splits(const std::string& folder,
                     const std::vector<std::string>& classes) {
  constexpr std::array<std::string_view, 4> kSplits = {"train", "test", "val",
                                                       "validation"};
  const bool are_splits =
      !classes.empty() &&
      std::all_of(classes.begin(), classes.end(), [&](const auto& name) {
        return std::find(kSplits.begin(), kSplits.end(), name) != kSplits.end();
      });
  if (are_splits)
    throw UserError(
        "{}: its folders ({}) are splits, which data.test would take for "
        "classes; leave data.test out",
        folder, fmt::join(classes, ", "));
}

ImageFiles files_of_folder(const std::string& folder) {
  const std::string train = first_there(folder, {"train"});
  std::string test = first_there(folder, {"test"});
  std::string validation = first_there(folder, {"val", "validation"});
  if (train.empty() || (test.empty() && validation.empty()))
    throw UserError(
        "{}: expected the folders train and test (or val) in it, with a folder "
        "for each class",
        folder);
  if (test.empty()) test = std::exchange(validation, "");
  SkippedFiles counted_below;
  ImageFiles files = {.classes = folders_in(train, counted_below)};
  check_classes(train, files.classes);
  const Labels labels = labels_of(files.classes);
  files.train = labelled_files(train, labels, files.left_out);
  files.test = labelled_files(test, labels, files.left_out);
  if (!validation.empty())
    files.validation = labelled_files(validation, labels, files.left_out);
  return files;
}

/// For a folder whose own folders are the classes. Of each, a share is the test
/// split, which neither the seed of a run nor another class has a part in.
ImageFiles divided_files(const std::string& folder, double test) {
  ImageFiles files;
  files.classes = folders_in(folder, files.left_out);
  check_no_splits(folder, files.classes);
  check_classes(folder, files.classes);
  for (std::size_t label = 0; label < files.classes.size(); ++label) {
    std::vector<std::string> paths =
        image_files_in(below(folder, files.classes[label]), files.left_out);
    KeyedRandom random(random_key(
        {key_part("test split"), static_cast<std::uint64_t>(label)}));
    for (std::size_t i = paths.size() - 1; i > 0; --i)
      std::swap(paths[i], paths[random.below(i + 1)]);
    const auto held = static_cast<std::size_t>(
        std::llround(test * static_cast<double>(paths.size())));
    if (held == paths.size())
      throw UserError(
          "data.test = {} is all of the {} images of {}; give a smaller share",
          test, held, below(folder, files.classes[label]));
    std::sort(paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(held));
    std::sort(paths.begin() + static_cast<std::ptrdiff_t>(held), paths.end());
    for (std::size_t i = 0; i < paths.size(); ++i)
      (i < held ? files.test : files.train)
          .push_back({{paths[i]}, static_cast<std::int64_t>(label)});
  }
  if (files.train.empty())
    throw UserError("{}: has no folder; images lie in a folder for each class",
                    folder);
  if (files.test.empty())
    throw UserError(
        "data.test = {} is no image of any class of {}; give a "
        "larger share",
        test, folder);
  return files;
}

/// "val_0.JPEG\tn03444034\t0\t32\t44\t62" a line: file, class, and a box that
/// isn't used.
std::vector<ImageFile> annotated_files(const std::string& folder,
                                       const Labels& labels) {
  constexpr std::uint64_t kMostText = std::uint64_t{1} << 26;
  const std::string path = below(folder, "val_annotations.txt");
  if (!fs::exists(path))
    throw UserError("{}: is not there; unpack tiny-imagenet-200.zip again",
                    path);
  const std::string text = read_file(path, kMostText);
  std::vector<ImageFile> files;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::size_t first = line.find('\t');
    const std::string_view name = line.substr(0, first);
    std::string_view wnid =
        first == std::string_view::npos ? "" : line.substr(first + 1);
    wnid = wnid.substr(0, wnid.find_first_of("\t\r"));
    const auto label = labels.find(wnid);
    if (name.empty() || name.find('/') != std::string_view::npos ||
        label == labels.end())
      throw UserError(
          "{}:{}: expected a file's name, a tab, and a class that "
          "is a folder of train",
          path, number);
    files.push_back({{below(below(folder, "images"), name)}, label->second});
  }
  if (files.empty()) throw UserError("{}: names no image", path);
  return files;
}

}  // namespace

MakeDataSet configure_image_folder(Fields& fields) {
  std::string folder;
  double test = 0;
  ImageFilesOptions options;
  fields.key("folder", folder,
             {.text = "the folder with train and test or val in it: beside the "
                      "config, below data.root, or absolute"});
  fields.key("test", test,
             {.text = "share of the images of each class that is the test "
                      "split, where the classes are folders of `folder` "
                      "itself; 0: there are train and test",
              .min = 0,
              .max = 1});
  options.describe_size(fields);
  options.describe_reading(fields);
  describe_normalisation(fields, options.mean, options.std);
  const Augmentation augmentation = read_augmentation(fields);
  const ValidationOptions validation = read_validation(fields);
  if (folder.empty())
    fields.reject("folder",
                  "names no folder; give one with train and test in it");
  return [=](const std::string& root) {
    const std::string path = find_data_folder(root, folder);
    ImageFiles files =
        test > 0 ? divided_files(path, test) : files_of_folder(path);
    if (validation.amount != 0 && !files.validation.empty())
      throw UserError(
          "data.validation = {} holds training images back, but {} has a "
          "validation split of its own: leave it out",
          validation.amount, folder);
    files.train_is_evaluated = validation.amount != 0;
    return with_validation(
        image_files_data_set(options, augmentation, std::move(files)),
        validation);
  };
}

MakeDataSet configure_tiny_imagenet(Fields& fields) {
  // The mean and standard deviation are those of ImageNet.
  ImageFilesOptions options = {.size = 64};
  options.describe_reading(fields);
  describe_normalisation(fields, options.mean, options.std);
  const Augmentation augmentation = read_augmentation(fields);
  const ValidationOptions validation = read_validation(fields);
  return [=](const std::string& root) {
    const std::string folder = find_data_folder(root, "tiny-imagenet-200");
    SkippedFiles counted_below;
    ImageFiles files = {
        .classes = folders_in(below(folder, "train"), counted_below),
        .train_is_evaluated = validation.amount != 0};
    const Labels labels = labels_of(files.classes);
    files.train =
        labelled_files(below(folder, "train"), labels, files.left_out);
    files.test = annotated_files(below(folder, "val"), labels);
    return with_validation(
        image_files_data_set(options, augmentation, std::move(files)),
        validation);
  };
}

}  // namespace sluice
