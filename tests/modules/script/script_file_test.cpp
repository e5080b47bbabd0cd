// TorchScript files of strangers: what load_script() refuses, before anything
// of them runs.
#include "modules/script/script_file.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "modules/script/script_pickle.h"

namespace sluice::script_file_test {

namespace fs = std::filesystem;
namespace serialize = caffe2::serialize;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Script = torch::jit::Module;

constexpr const char* kForward = "def forward(self, x: Tensor) -> Tensor:\n";
constexpr const char* kLinear =
    "    return torch.linear(x, self.weight, self.bias)\n";

class ScriptFile : public testing::Test {
 protected:
  ScriptFile()
      : folder_(fs::path(testing::TempDir()) /
                fmt::format("script_file_{}_{}", ::getpid(),
                            testing::UnitTest::GetInstance()
                                ->current_test_info()
                                ->name())) {
    fs::create_directories(folder_);
  }
  ~ScriptFile() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  /// A module of one linear layer, with these methods besides forward.
  Script network(const std::string& forward,
                 const std::vector<std::string>& methods = {}) {
    Script module(c10::QualifiedName("__torch__.Net"), unit_,
                  /*shouldMangle=*/true);
    module.register_attribute("training", c10::BoolType::get(), true);
    module.register_parameter("weight",
                              at::ones({7, 11}).set_requires_grad(true), false);
    module.register_parameter("bias", at::zeros({7}).set_requires_grad(true),
                              false);
    for (const std::string& method : methods) module.define(method);
    module.define(kForward + forward);
    return module;
  }

  std::string saved(const Script& module, const std::string& name = "net.pt") {
    module.save(path(name));
    return path(name);
  }

  /// A copy of a file in which `edit` has changed records.
  std::string edited(
      const std::string& file,
      const std::function<std::string(const std::string& record,
                                      std::string bytes)>& edit) const {
    serialize::PyTorchStreamReader reader(file);
    const std::string to = path("edited.pt");
    serialize::PyTorchStreamWriter writer(to);
    for (const std::string& record : reader.getAllRecords()) {
      if (record == "version" || record == ".data/serialization_id" ||
          record.ends_with(".debug_pkl"))
        continue;
      const auto [bytes, size] = reader.getRecord(record);
      const std::string text =
          edit(record, {static_cast<const char*>(bytes.get()), size});
      writer.writeRecord(record, text.data(), text.size());
    }
    writer.setMinVersion(reader.version());
    writer.writeEndOfFile();
    return to;
  }

  std::string with_source(const std::string& file, const std::string& from,
                          const std::string& to) const {
    return edited(file, [&](const std::string& record, std::string bytes) {
      const std::size_t at =
          record.ends_with(".py") ? bytes.find(from) : std::string::npos;
      return at == std::string::npos ? bytes
                                     : bytes.replace(at, from.size(), to);
    });
  }

  std::string with_pickle(const std::string& file, const std::string& from,
                          const std::string& to) const {
    return edited(file, [&](const std::string& record, std::string bytes) {
      const std::size_t at =
          record == "data.pkl" ? bytes.find(from) : std::string::npos;
      return at == std::string::npos ? bytes
                                     : bytes.replace(at, from.size(), to);
    });
  }

  static std::string refusal_of(const std::string& file) {
    try {
      load_script(file, /*is_trusted=*/false);
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "no error";
  }

  std::string victim() const { return path("victim"); }
  std::string save_victim() const {
    return fmt::format("torch.save(x, '{}')", victim());
  }
  void expect_untouched() const { EXPECT_FALSE(fs::exists(victim())); }

  fs::path folder_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_ =
      std::make_shared<torch::jit::CompilationUnit>();
};

TEST_F(ScriptFile, ScriptFileOfANetworkIsLoaded) {
  const std::string file = saved(
      network("    if self.training:\n"
              "        torch.warn('in training')\n"
              "    y = self.twice(x, 2)\n"
              "    y = torch.gelu(torch.dropout(y, 0.5, self.training))\n"
              "    ys = [torch.softmax(y, 1), torch.layer_norm(y, [11])]\n"
              "    for each in ys:\n"
              "        y = y + each\n"
              "    z = torch.einsum('ij,kj->ik', [y, self.weight])\n"
              "    assert z.size(0) == x.shape[0]\n"
              "    return torch.view(z, [-1, 7]) + self.bias\n",
              {"def twice(self, x: Tensor, by: int=2) -> Tensor:\n"
               "    return x * by\n"}));
  EXPECT_EQ(refusal_of(file), "no error");
}

struct Reaching {
  const char* name;
  const char* operation;  ///< {} is the victim's path
  const char* says;
};

class ScriptThatReachesOut : public ScriptFile,
                             public testing::WithParamInterface<Reaching> {};

TEST_P(ScriptThatReachesOut, IsRefusedByTheNameOfTheOperator) {
  const Reaching& reaching = GetParam();
  std::ofstream(victim()) << "as it was";
  const std::string file = saved(network(fmt::format(
      "    {}\n{}", fmt::format(fmt::runtime(reaching.operation), victim()),
      kLinear)));
  EXPECT_THAT(refusal_of(file),
              AllOf(HasSubstr(reaching.says), HasSubstr("forward"),
                    HasSubstr("model.trust = true")));
  EXPECT_NO_THROW(load_script(file, /*is_trusted=*/true));
  std::ifstream left(victim());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(left), {}), "as it was");
}

INSTANTIATE_TEST_SUITE_P(
    Operators, ScriptThatReachesOut,
    testing::Values(
        Reaching{"Save", "torch.save(x, '{}')", "aten::save"},
        Reaching{"MappedFile",
                 "x = x + torch.from_file('{}', True, 2).add_(1).sum()",
                 "aten::from_file"},
        Reaching{"Print", "print(x)", "prim::Print"},
        Reaching{"Seed", "torch.manual_seed(3)", "aten::manual_seed"},
        Reaching{"Storage", "x = x.set_(self.weight)", "aten::set_"},
        Reaching{"Internals", "x = torch._foreach_add([x], 1)[0]",
                 "aten::_foreach_add"},
        Reaching{"Backward", "x = torch.sigmoid_backward(x, x)",
                 "aten::sigmoid_backward"},
        Reaching{"PackedPointers",
                 "x = torch.fbgemm_linear_fp16_weight(x, x, x)",
                 "aten::fbgemm_linear_fp16_weight"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ScriptFile, MayNotCallOperatorsOfOtherNamespaces) {
  const std::string file = saved(network(kLinear));
  EXPECT_THAT(refusal_of(with_source(
                  file, "return ",
                  "y = ops.inductor._reinterpret_tensor(x, [9], [1], 0)\n"
                  "    return y + ")),
              HasSubstr("calls inductor::_reinterpret_tensor"));
}

TEST_F(ScriptFile, IsLookedAtInMethodsThatForwardDoesNotCall) {
  const std::string file =
      saved(network(kLinear, {"def other(self, x: Tensor) -> Tensor:\n    " +
                              save_victim() + "\n    return x\n"}));
  EXPECT_THAT(refusal_of(file), HasSubstr("aten::save"));
  expect_untouched();
}

TEST_F(ScriptFile, IsLookedAtInModulesBelow) {
  Script child = network("    if x.size(0) > 3:\n        " + save_victim() +
                         "\n" + kLinear);
  Script top(c10::QualifiedName("__torch__.Top"), unit_, true);
  top.register_module("child", child);
  top.define(std::string(kForward) + "    return self.child.forward(x)\n");
  EXPECT_THAT(refusal_of(saved(top)), HasSubstr("aten::save"));
  expect_untouched();
}

TEST_F(ScriptFile, MayNotComputeAConstantAsItIsRead) {
  const std::string file = saved(network(kLinear));
  const std::string evil =
      with_source(file, "  training : bool\n",
                  fmt::format("  training : bool\n  n : Final[int] = "
                              "len([torch.save(torch.zeros([1]), '{}')])\n",
                              victim()));
  EXPECT_THAT(refusal_of(evil), HasSubstr("a constant of 'Net'"));
  expect_untouched();
  EXPECT_NO_THROW(load_script(evil, /*is_trusted=*/true));
  EXPECT_TRUE(fs::exists(victim())) << "LibTorch runs it, so the gate is due";
}

TEST_F(ScriptFile, MayNotComputeADefaultAsItIsRead) {
  const std::string file = saved(network(
      kLinear,
      {"def other(self, x: Tensor, n: int=3) -> Tensor:\n    return x * n\n"}));
  const std::string evil =
      with_source(file, "n: int=3",
                  fmt::format("n: int=len([torch.save(torch.zeros([1]), "
                              "'{}')])",
                              victim()));
  EXPECT_THAT(refusal_of(evil), HasSubstr("the default of 'n' in 'Net.other'"));
  expect_untouched();
}

TEST_F(ScriptFile, MayHaveDefaultsThatAreValues) {
  EXPECT_EQ(refusal_of(saved(network(
                kLinear,
                {"def other(self, x: Tensor, n: int=-3, f: float=1e-05, s: str="
                 "'a', b: bool=True, o: Optional[int]=None, l: List[int]=[1, "
                 "2]) -> Tensor:\n    return x * n\n"}))),
            "no error");
}

TEST_F(ScriptFile, MayNotSetItsStateAsItIsRead) {
  const std::string file = saved(network(
      kLinear, {"def __getstate__(self) -> Tuple[Tensor, Tensor, bool]:\n"
                "    return (self.weight, self.bias, self.training)\n",
                "def __setstate__(self, state: Tuple[Tensor, Tensor, bool]) -> "
                "None:\n"
                "    x = state[0]\n    " +
                    save_victim() +
                    "\n    self.weight = x\n    self.bias = state[1]\n"
                    "    self.training = state[2]\n"}));
  EXPECT_THAT(refusal_of(file), HasSubstr("'Net.__setstate__' runs while"));
  expect_untouched();
}

TEST_F(ScriptFile, MayNotDoubleItsCalls) {
  std::vector<std::string> methods = {
      "def f0(self, x: Tensor) -> Tensor:\n    return x + 1\n"};
  for (int i = 1; i < 40; ++i)
    methods.push_back(
        fmt::format("def f{0}(self, x: Tensor) -> Tensor:\n    return "
                    "self.f{1}(self.f{1}(x))\n",
                    i, i - 1));
  EXPECT_THAT(refusal_of(saved(network("    return self.f39(x)\n", methods))),
              HasSubstr("operations, with those of what it calls"));
}

TEST_F(ScriptFile, MayNotBeNestedBeyondTheStack) {
  const std::string file = saved(network(kLinear));
  for (const char* deep : {"-", "(", "not ", "[x, "}) {
    std::string nested;
    for (int i = 0; i < 100'000; ++i) nested += deep;
    EXPECT_THAT(
        refusal_of(with_source(file, "return ",
                               fmt::format("y = {}x\n    return ", nested))),
        HasSubstr("operators"))
        << deep;
  }
}

TEST_F(ScriptFile, MayNotHaveAStorageLargerThanItsRecord) {
  const std::string file = saved(network(kLinear));
  EXPECT_THAT(refusal_of(with_pickle(file, "K\x4dt", "K\xfft")),
              HasSubstr("is to have 255 elements, and its record has 308"));
}

TEST_F(ScriptFile, MayNotHaveATensorLargerThanItsStorage) {
  const std::string file = saved(network(kLinear));
  EXPECT_THAT(refusal_of(with_pickle(file, "K\x07K\x0bt", "K\x09K\x0bt")),
              HasSubstr("a tensor is larger than its storage"));
  EXPECT_THAT(refusal_of(with_pickle(file, "K\x0bK\x01t", "K\xffK\x01t")),
              HasSubstr("a tensor is larger than its storage"));
}

TEST_F(ScriptFile, MayNotUnpackToFarMoreThanItIs) {
  const std::string to = path("bomb.pt");
  {
    serialize::PyTorchStreamWriter writer(to);
    const std::string zeros(std::size_t{80} << 20, '\0');
    writer.writeRecord("data.pkl", zeros.data(), zeros.size(),
                       /*compress=*/true);
    writer.writeEndOfFile();
  }
  EXPECT_THAT(refusal_of(to), HasSubstr("and unpacks to"));
}

TEST_F(ScriptFile, ScriptFileOfWeightsAloneIsNone) {
  const std::string to = path("weights.pt");
  {
    serialize::PyTorchStreamWriter writer(to);
    const std::string pickle("\x80\x02}.", 4);
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeEndOfFile();
  }
  EXPECT_THAT(refusal_of(to), HasSubstr("is no TorchScript file"));
}

TEST_F(ScriptFile, ThatIsCutAnywhereIsRefusedInALine) {
  const std::string file = saved(network(kLinear));
  const auto size = fs::file_size(file);
  for (const std::uintmax_t part : {size - 1, size / 2, size / 5}) {
    fs::copy_file(file, path("cut.pt"), fs::copy_options::overwrite_existing);
    fs::resize_file(path("cut.pt"), part);
    EXPECT_THAT(refusal_of(path("cut.pt")), HasSubstr("is no TorchScript"));
  }
}

std::string refusal_of_pickle(const std::string& bytes) {
  try {
    check_script_pickle(bytes, "net.pt", "data.pkl",
                        [](const std::string&) { return 16; });
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kBegin("\x80\x02", 2);

TEST(ScriptPickle, ScriptPickleOfClassesOfCppIsRefused) {
  for (const char* name :
       {"c__torch__.torch.classes.dist_c10d\nFileStore\n",
        "c__torch__.torch\nclasses.dist_c10d.FileStore\n", "cos\nsystem\n",
        "cbuiltins\neval\n", "ctorch.distributed.rpc\nrref\n"})
    EXPECT_THAT(refusal_of_pickle(kBegin + name + "."),
                HasSubstr("it makes a '"));
  EXPECT_EQ(refusal_of_pickle(kBegin + "c__torch__\nNet\n)\x81}b."),
            "no error");
}

TEST(ScriptPickle, ThatNestsOrJumpsIsRefused) {
  EXPECT_THAT(refusal_of_pickle(kBegin + ")" + std::string(300, '\x85') + "."),
              HasSubstr("nested more than 200 deep"));
  EXPECT_THAT(refusal_of_pickle(kBegin + "]r\xff\xff\xff\xff."),
              HasSubstr("number of the memo"));
  EXPECT_THAT(refusal_of_pickle(kBegin + "K\x01)R."),
              HasSubstr("calls what is no class"));
  EXPECT_THAT(refusal_of_pickle(kBegin + "i."), HasSubstr("opcode 0x69"));
  EXPECT_THAT(refusal_of_pickle(kBegin + "]q\x01h\x01h\x01" + "a."),
              HasSubstr("changes a value"));
  for (const char* cut :
       {"", "K", "X\xff", "c", "cx\n", "t.", "R.", "e.", "h\x01."})
    EXPECT_NE(refusal_of_pickle(kBegin + cut), "no error") << cut;
}

}  // namespace sluice::script_file_test
