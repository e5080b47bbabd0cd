// Issue 18, item 13: files that are not what they are taken for.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "tests/experiments/helpers/refused_command.h"

namespace sluice::bad_files_test {

namespace fs = std::filesystem;

/// What a test's folder holds, and what is then asked of the program in its
/// folder `work`.
struct Trap {
  const char* name;
  std::function<void(const std::string& folder)> set;
  std::string arguments;
  std::string says;
};

class BadFile : public RefusedCommand,
                public testing::WithParamInterface<Trap> {};

TEST_P(BadFile, IsOneErrorLineAndWritesNothing) {
  GetParam().set(folder_);
  expect_refusal(GetParam().arguments, GetParam().says);
}

std::string with_name(const testing::TestParamInfo<Trap>& info) {
  return info.param.name;
}

void write_file(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::function<void(const std::string&)> with_file(const std::string& name,
                                                  const std::string& bytes) {
  return [=](const std::string& folder) {
    write_file(folder + "/" + name, bytes);
  };
}

std::function<void(const std::string&)> with_config(const std::string& bytes) {
  return with_file("c.toml", bytes);
}

/// A file of `head` and then so many zero bytes, gzipped.
void write_bomb(const std::string& path, const std::string& head,
                std::size_t zeros) {
  fs::create_directories(fs::path(path).parent_path());
  const gzFile file = gzopen(path.c_str(), "wb1");
  gzwrite(file, head.data(), static_cast<unsigned>(head.size()));
  const std::string piece(1 << 20, '\0');
  for (std::size_t left = zeros; left > 0;) {
    const std::size_t now = std::min(left, piece.size());
    gzwrite(file, piece.data(), static_cast<unsigned>(now));
    left -= now;
  }
  gzclose(file);
}

INSTANTIATE_TEST_SUITE_P(
    Configs, BadFile,
    testing::Values(
        Trap{"Fifo",
             [](const std::string& folder) {
               ::mkfifo((folder + "/fifo").c_str(), 0600);
             },
             "run ../fifo", "'../fifo': it is a fifo; give a regular file"},
        Trap{"FifoThatIsExtended",
             [](const std::string& folder) {
               ::mkfifo((folder + "/fifo").c_str(), 0600);
               write_file(folder + "/c.toml", "extends = 'fifo'");
             },
             "run ../c.toml", "it is a fifo"},
        Trap{"LoopOfLinks",
             [](const std::string& folder) {
               fs::create_symlink("b", folder + "/a");
               fs::create_symlink("a", folder + "/b");
             },
             "run ../a", "Too many levels of symbolic links"},
        Trap{"LinkToNothing",
             [](const std::string& folder) {
               fs::create_symlink("nothing", folder + "/a");
             },
             "run ../a", "No such file"},
        Trap{"PathThatIsTooLong", with_config(""),
             "run " + std::string(5000, 'x'), "File name too long"},
        Trap{"Utf16", with_config(std::string("\xff\xfet\0u\0r\0n\0s\0", 12)),
             "run ../c.toml", "c.toml:1:1: "},
        Trap{"Latin1", with_config("loss = {name = 'caf\xe9'}"),
             "run ../c.toml", "c.toml:1:"},
        Trap{"Binary",
             with_config(std::string("\x7f"
                                     "ELF\x02\x01\0\0\0",
                                     9)),
             "run ../c.toml", "c.toml:1:"},
        Trap{"OfHugeSize",
             [](const std::string& folder) {
               write_file(folder + "/c.toml", "");
               fs::resize_file(folder + "/c.toml", std::uintmax_t{1} << 33);
             },
             "run ../c.toml", "it has more than"}),
    with_name);

std::string mnist_header(unsigned images) {
  std::string header("\0\0\x08\x03\0\0\0\0\0\0\0\x1c\0\0\0\x1c", 16);
  header[6] = static_cast<char>(images >> 8);
  header[7] = static_cast<char>(images);
  return header;
}

/// Ten images and labels in each split; `change` then spoils them.
std::function<void(const std::string&)> with_mnist(
    const std::function<void(const std::string& folder)>& change) {
  return [=](const std::string& folder) {
    const std::string root = folder + "/mnist/";
    for (const char* split : {"train", "t10k"}) {
      write_file(root + split + "-images-idx3-ubyte",
                 mnist_header(10) + std::string(10 * 28 * 28, '\0'));
      write_file(
          root + split + "-labels-idx1-ubyte",
          std::string("\0\0\x08\x01\0\0\0\x0a", 8) + std::string(10, '\1'));
    }
    write_file(folder + "/c.toml",
               "turns = 1\nbatch_size = 5\ndata = {name = 'mnist', root = "
               "'..'}\nmodel = {hidden = [4]}\n");
    change(root);
  };
}

const std::string kImages = "train-images-idx3-ubyte";
const std::string kLabels = "train-labels-idx1-ubyte";

INSTANTIATE_TEST_SUITE_P(
    Data, BadFile,
    testing::Values(
        Trap{"GzippedImagesThatGoOn", with_mnist([](const std::string& root) {
               fs::remove(root + kImages);
               write_bomb(root + kImages + ".gz", mnist_header(10), 1 << 20);
             }),
             "run ../c.toml", "goes on behind the 7856 bytes"},
        Trap{"GzippedImagesOfAHugeHeader",
             with_mnist([](const std::string& root) {
               fs::remove(root + kImages);
               write_bomb(root + kImages + ".gz",
                          std::string("\0\0\x08\x03\x7f\xff\xff\xff\0\0\0\x1c"
                                      "\0\0\0\x1c",
                                      16),
                          100);
             }),
             "run ../c.toml", "2147483647 images"},
        Trap{"GzippedCifarOfZeros",
             [](const std::string& folder) {
               const std::string root = folder + "/cifar-10-batches-bin/";
               write_bomb(root + "data_batch_1.bin.gz", "", 3073 * 30'000);
               write_file(folder + "/c.toml",
                          "data = {name = 'cifar10', root = '..'}");
             },
             "run ../c.toml", "inflates to more than"},
        Trap{"GzippedTextOfZeros",
             [](const std::string& folder) {
               write_bomb(folder + "/text.gz", "", 80 << 20);
               write_file(folder + "/c.toml",
                          "model = {name = 'gpt'}\ndata = {name = 'text', "
                          "root = '..', file = 'text'}");
             },
             "run ../c.toml", "inflates to more than"},
        Trap{"ImagesThatAreCutOff", with_mnist([](const std::string& root) {
               fs::resize_file(root + kImages, 5000);
             }),
             "run ../c.toml", "has 4984 bytes after its header"},
        Trap{"ImagesThatAreEmpty", with_mnist([](const std::string& root) {
               fs::resize_file(root + kImages, 0);
             }),
             "run ../c.toml", "expected an idx header of 16"},
        Trap{"LabelsForImages", with_mnist([](const std::string& root) {
               fs::copy_file(root + kLabels, root + kImages,
                             fs::copy_options::overwrite_existing);
             }),
             "run ../c.toml", "expected 0x00000803"},
        Trap{"ALabelOfEleven", with_mnist([](const std::string& root) {
               std::fstream(root + kLabels,
                            std::ios::in | std::ios::out | std::ios::binary)
                       .seekp(12)
                   << '\x0b';
             }),
             "run ../c.toml", "sample 4 has the label 11, expected 0 to 9"},
        Trap{"AFolderForImages", with_mnist([](const std::string& root) {
               fs::remove(root + kImages);
               fs::create_directory(root + kImages);
             }),
             "run ../c.toml", "no file ../mnist/train-images"},
        Trap{"AFifoForImages", with_mnist([](const std::string& root) {
               fs::remove(root + kImages);
               ::mkfifo((root + kImages).c_str(), 0600);
             }),
             "run ../c.toml", "no file ../mnist/train-images"},
        Trap{"CifarOfHalfARecord",
             [](const std::string& folder) {
               write_file(folder + "/cifar-10-batches-bin/data_batch_1.bin",
                          std::string(1000, 'x'));
               write_file(folder + "/c.toml",
                          "data = {name = 'cifar10', root = '..'}");
             },
             "run ../c.toml", "expected a multiple of 3073"},
        Trap{"ATextOfOneByte",
             [](const std::string& folder) {
               write_file(folder + "/text", "x");
               write_file(folder + "/c.toml",
                          "model = {name = 'gpt'}\ndata = {name = 'text', "
                          "root = '..', file = 'text'}");
             },
             "run ../c.toml", "give a smaller data.context"}),
    with_name);

/// A safetensors file of that header, and so many bytes of data.
std::string tensors(const std::string& header, std::size_t bytes = 4) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i)
    text[i] = static_cast<char>(header.size() >> 8 * i);
  return text + header + std::string(bytes, '\0');
}

std::string many_tensors(int count) {
  std::string header = "{";
  for (int i = 0; i < count; ++i)
    header += fmt::format(
        R"({}"t{}":{{"dtype":"F32","shape":[],"data_offsets":[{},{}]}})",
        i == 0 ? "" : ",", i, 4 * i, 4 * i + 4);
  return tensors(header + "}", static_cast<std::size_t>(count) * 4);
}

Trap weights(const char* name, const std::function<std::string()>& bytes,
             const std::string& says) {
  return {name,
          [=](const std::string& folder) {
            write_file(folder + "/w", bytes());
            write_file(folder + "/c.toml", "initial_weights = '../w'");
          },
          "run ../c.toml", says};
}

Trap weights(const char* name, const std::string& bytes,
             const std::string& says) {
  return weights(
      name, [=] { return bytes; }, says);
}

INSTANTIATE_TEST_SUITE_P(
    Weights, BadFile,
    testing::Values(
        // Took over a minute.
        weights(
            "OfManyTensors", [] { return many_tensors(300'000); },
            "more than 100000 tensors"),
        weights(
            "OfManyTensorsThatAreNoneOfOurs",
            [] { return many_tensors(90'000); },
            "has no tensor 'layers.0.linear.weight'"),
        weights("Empty", std::string(), "../w: no safetensors file"),
        weights("OfAHugeHeader", std::string(8, '\x7f') + "{}", "header of"),
        weights("OfAHeaderThatIsAList", tensors("[]"), "holds array"),
        weights("OfAHeaderInManyBrackets",
                tensors(std::string(100'000, '[') + std::string(100'000, ']')),
                "nested more than 3 deep"),
        weights("OfATensorThatIsANumber", tensors(R"({"a":5})"), "is damaged"),
        weights(
            "WithATensorTwice",
            tensors(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                    R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})"),
            "two tensors are called 'a'"),
        weights(
            "OfManySizes",
            tensors(fmt::format(
                R"({{"a":{{"dtype":"F32","shape":[1{}],"data_offsets":[0,4]}}}})",
                [] {
                  std::string ones;
                  for (int i = 0; i < 999; ++i) ones += ",1";
                  return ones;
                }())),
            "has 1000 sizes"),
        weights("WithANameThatSpeaksToATerminal",
                tensors(R"({"a\u001b[31m":{"dtype":"F64","shape":[],)"
                        R"("data_offsets":[0,4]}})"),
                "tensor 'a\\x1b[31m' needs 8 bytes"),
        Trap{"Fifo",
             [](const std::string& folder) {
               ::mkfifo((folder + "/w").c_str(), 0600);
               write_file(folder + "/c.toml", "initial_weights = '../w'");
             },
             "run ../c.toml", "../w"}),
    with_name);

}  // namespace sluice::bad_files_test
