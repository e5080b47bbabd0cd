// What users get wrong: one line that names the culprit and the remedy, exit
// status 2, and nothing written.
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/experiments/helpers/program.h"

namespace sluice::bad_input_test {

namespace fs = std::filesystem;

struct Misuse {
  const char* name;
  const char* config;
  const char* says;
  const char* arguments = "";  ///< behind the config
};

class BadConfig : public Program, public testing::WithParamInterface<Misuse> {};

TEST_P(BadConfig, IsOneErrorLineAndWritesNothing) {
  const std::string config = write("config.toml", GetParam().config);
  const Outcome run = sluice("run " + config + " " + GetParam().arguments +
                             " --dir " + path("run"));
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.text.find(GetParam().says), std::string::npos) << run.text;
  EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 1) << run.text;
  EXPECT_FALSE(fs::exists(path("run")));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadConfig,
    testing::Values(
        Misuse{"Syntax", "blocks = [", "config.toml:1"},
        Misuse{"UnknownKey", "block = 2", "did you mean 'blocks'"},
        Misuse{"UnknownModel", "model = {name = 'mpl'}", "did you mean 'mlp'"},
        Misuse{"UnknownPolicy", "boundary = {policy = 'local_los'}",
               "did you mean 'local_loss'"},
        Misuse{"UnknownHead",
               "boundary = {policy = 'local_loss', head = {name = 'predsm'}}",
               "did you mean 'predsim'"},
        Misuse{"UnknownOption", "model = {hiden = [3]}",
               "did you mean 'hidden'"},
        Misuse{"UnknownOptionOfASynthesizer",
               "boundary = {policy = 'synthetic_gradient', synthesizer = "
               "{optimiser = {lr = 1}}}",
               "did you mean 'optimizer'"},
        Misuse{"WrongType", "batch_size = 'many'", "batch_size"},
        Misuse{"OutOfRange", "batch_size = 0", "batch_size"},
        Misuse{"TooManyBlocks", "blocks = 9", "blocks"},
        Misuse{"UnknownDevice", "device = 'gpu'", "device 'gpu': there are"},
        Misuse{"UnknownNumberOfADevice", "device = 'cuda:x'", "\"cuda:0\""},
        Misuse{"TooFewDevices", "device = ['cpu']", "each of the 2 blocks"},
        Misuse{"NoSuchGpuHere", "device = ['cpu', 'cuda:63']",
               "block 2: device 'cuda:63': this "},
        Misuse{"GapBetweenBlocks", "blocks = ['0', '2-']", "blocks"},
        Misuse{"NoSuchBoundary", "boundary = {5 = {policy = 'backprop'}}",
               "boundary.5"},
        Misuse{"NoSuchOptimizer", "optimizer = {7 = {lr = 1}}", "optimizer.7"},
        Misuse{"NesterovWithoutMomentum", "optimizer = {nesterov = true}",
               "momentum"},
        Misuse{"BlendOfTwoDelays",
               "boundary = {policy = 'blend', sources = [{policy = "
               "'features_replay'}, {policy = 'backprop'}]}",
               "the same delay"},
        Misuse{"MixedWithBf16",
               "precision = 'bf16'\nboundary = {policy = 'delayed_gradient', "
               "weights = 'mixed'}",
               "silently be 'stash'"},
        Misuse{"MixedReplay",
               "boundary = {policy = 'delayed_gradient', weights = 'current'}",
               "stash, recompute, mixed"},
        Misuse{"ReplayOfBatchNormThatDoesNotSayWhen",
               "model = {name = 'conv3', channels = 4}\nboundary = {policy = "
               "'features_replay'}",
               "boundary.1.statistics = "},
        Misuse{"DspOfBatchNormThatDoesNotSayWhen",
               "model = {name = 'conv3', channels = 4}\nboundary = {policy = "
               "'fully_decoupled', weights = 'current'}",
               "boundary.1.statistics = "},
        Misuse{"ModelClipWithDelay",
               "boundary = {policy = 'delayed_gradient'}\noptimizer = {clip = "
               "{norm = 1, scope = 'model'}}",
               "clip.scope = 'block'"},
        Misuse{
            "ModelClipWithLocalLoss",
            "boundary = {policy = 'local_loss'}\noptimizer = {clip = {norm = "
            "1, scope = 'model'}}",
            "clip"},
        Misuse{"ModelClipWithSeveralNorms",
               "optimizer = {1 = {clip = {norm = 1, scope = 'model'}}, 2 = "
               "{clip = {norm = 2, scope = 'model'}}}",
               "one norm"},
        Misuse{"UnknownKeyOfNoBoundary", "blocks = 1\nboundary = {polcy = 'x'}",
               "did you mean 'policy'"},
        Misuse{"KeysThatNoBlockTakes",
               "optimizer = {lr = 5, 1 = {name = 'sgd'}, 2 = {name = 'adam'}}",
               "optimizer.lr"},
        Misuse{"HugeNumberOfABoundary",
               "boundary = {99999999999999999999 = {policy = 'backprop'}}",
               "there is only number 1"},
        Misuse{"GroupWithoutPattern", "optimizer = {groups = [{lr_scale = 2}]}",
               "pattern"},
        Misuse{"BlendOfNothing",
               "boundary = {policy = 'blend', sources = [{policy = 'backprop', "
               "weight = 0}]}",
               "weight other than 0"},
        Misuse{"BlendOfTwoEqualHeads",
               "boundary = {policy = 'blend', sources = [{policy = "
               "'local_loss'}, {policy = 'local_loss'}]}",
               "different kinds"},
        Misuse{"EmptyBlend", "boundary = {policy = 'blend'}", "source"},
        Misuse{"NegativeRate", "optimizer = {lr = -1}", "lr: -1 is out of"},
        Misuse{"UnknownOptimizer", "optimizer = {name = 'sdg'}", "'sdg'"},
        Misuse{"OptionOfAnotherOptimizer",
               "optimizer = {name = 'adam', momentum = 0.9}", "momentum"},
        Misuse{"UnknownLoss", "loss = {name = 'mse'}", "mean_squared_error"},
        Misuse{"UnknownData", "data = {name = 'mnits'}",
               "did you mean 'mnist'"},
        Misuse{"UnknownEngine", "engine = 'process'", "'processes'"},
        Misuse{"UnknownSchedule", "optimizer = {schedule = {name = 'linaer'}}",
               "cosine"},
        Misuse{"DropoutOfOne", "model = {dropout = 1.0}", "0.99"},
        Misuse{"UnknownMasks", "masks = 3", "masks"},
        Misuse{"NoNumber", "optimizer = {lr = nan}", "finite number"},
        Misuse{"TableForAValue", "batch_size = {a = 1}", "batch_size"},
        Misuse{"ValueForATable", "model = 'mlp'", "model"},
        Misuse{"KeyTwice", "blocks = 2\nblocks = 3", "config.toml:2"},
        Misuse{"OverlappingBlocks", "blocks = ['0-1', '1-']", "overlap"},
        Misuse{"BlocksBeyondTheModel", "blocks = ['0-7']", "layers are 0-2"},
        Misuse{"BlocksBackwards", "blocks = ['2-0']", "has no layers"},
        Misuse{"NoBlocks", "blocks = 0", "blocks"},
        Misuse{"BatchThatNothingFills", "drop_last = true\nbatch_size = 100000",
               "can't be filled"},
        Misuse{"TextForImages", "data = {name = 'text', file = '/dev/null'}",
               "/dev/null"},
        Misuse{"LanguageModelOnImages", "model = {name = 'gpt'}", "text"},
        Misuse{"DeepResNetThatIsNone", "model = {name = 'resnet', depth = 21}",
               "depth"},
        Misuse{"VocabularyHeadOnImages",
               "boundary = {policy = 'local_loss', head = {name = "
               "'vocabulary'}}",
               "vocabulary"},
        Misuse{"ExtendsWhatIsNotThere", "extends = ['nowhere.toml']",
               "nowhere.toml"},
        Misuse{"ExtendsItself", "extends = ['config.toml']", "config.toml"},
        Misuse{"InitialWeightsThatAreNotThere",
               "initial_weights = '/nowhere.safetensors'",
               "/nowhere.safetensors"},
        Misuse{"InitialWeightsThatAreNone", "initial_weights = '/etc/passwd'",
               "/etc/passwd"},
        Misuse{"OverrideWithoutAValue", "", "key=value", "epochs"},
        Misuse{"OverrideOfAnUnknownKey", "", "did you mean 'epochs'",
               "epoch=3"},
        Misuse{"OverrideOutOfRange", "", "batch_size", "batch_size=-3"},
        Misuse{"MissingData", "data = {name = 'mnist', root = '/nowhere'}",
               "/nowhere"}),
    [](const auto& info) { return std::string(info.param.name); });

struct CommandLine {
  const char* name;
  const char* arguments;
  const char* says;
};

class BadCommand : public Program,
                   public testing::WithParamInterface<CommandLine> {};

TEST_P(BadCommand, NamesTheCulprit) {
  const Outcome run = sluice(GetParam().arguments);
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.text.find(GetParam().says), std::string::npos) << run.text;
  EXPECT_EQ(std::count(run.text.begin(), run.text.end(), '\n'), 1) << run.text;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadCommand,
    testing::Values(
        CommandLine{"NoCommand", "", "subcommand"},
        CommandLine{"UnknownCommand", "rnu x.toml",
                    "'rnu' (did you mean 'run'?)"},
        CommandLine{"NoConfig", "run", "config"},
        CommandLine{"ConfigThatIsNotThere", "run /nowhere.toml",
                    "/nowhere.toml"},
        CommandLine{"ConfigThatIsAFolder", "run /tmp", "/tmp"},
        CommandLine{"OnlyWithoutACard", "run --resume /nowhere --only x",
                    "--only is for cards"},
        CommandLine{"UnknownFlag", "run x.toml --overwirte", "--overwirte"},
        CommandLine{"ListOfNothing", "list heds", "heds"},
        CommandLine{"EvaluationOfNothing", "eval /nowhere", "/nowhere"},
        CommandLine{"NothingToResume", "run --resume /tmp", "/tmp"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(Program, HelpShowsTheKeysOfEveryPolicy) {
  const std::string help = sluice("help config").text;
  for (const char* key : {"synthetic_gradient", "[boundary.synthesizer]",
                          "[boundary.synthesizer.optimizer]", "target_delay",
                          "[boundary.head]", "[[boundary.sources]]"})
    EXPECT_NE(help.find(key), std::string::npos) << key;
}

TEST_F(Program, SaysWhyItsFolderCanNotBeMade) {
  const std::string config = write("config.toml", config_with(""));
  const Outcome run = sluice("run " + config + " --dir /proc/none");
  EXPECT_EQ(run.status, 2);
  EXPECT_NE(run.text.find("/proc/none: can't be made"), std::string::npos)
      << run.text;
}

}  // namespace sluice::bad_input_test
