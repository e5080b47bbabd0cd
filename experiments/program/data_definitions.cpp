// The commands of `sluice data`.
#include <CLI/CLI.hpp>

#include "experiments/program/command_line.h"
#include "experiments/program/data_commands.h"
#include "experiments/program/definitions.h"
#include "experiments/program/number_options.h"

namespace sluice {

void define_data_order(CLI::App& data, DataOrderArguments& arguments) {
  CLI::App* command = data.add_subcommand(
      "order",
      "Print the samples of every batch of a run, to repeat it elsewhere.\n"
      "A line per batch: BATCH EPOCH SAMPLE SAMPLE ..., numbers from 0 with a\n"
      "space between. A sample is its place in the training files, in their\n"
      "order; of a text it is the byte at which its window starts.");
  add_config(*command, arguments.config);
  command
      ->add_option("--turns", arguments.turns,
                   "print the first N batches; default: all of the run")
      ->check(positive_number());
  command
      ->add_option(
          "--with", arguments.with,
          "also write random values that other programs can't draw, as a\n"
          "safetensors file; L is a layer of the uncut model, T a batch:\n"
          "masks: masks.T.layers.L.NAME, [N, ...] or [N, C, 1, 1], 0 or\n"
          "1/(1-p), by which a dropout of the model multiplies (those of\n"
          "auxiliary heads are left out);\n"
          "labels: labels.T, [N] or [N, places]; for Forward-Forward labels.T\n"
          "[N, 2], those written into the two inputs of a pair, right and "
          "wrong;\n"
          "projections: projections.L.I, [classes, width], DRTP's: row y over\n"
          "N is the gradient at tensor I of layer L's output for label y")
      ->delimiter(',')
      ->check(CLI::IsMember({"masks", "labels", "projections"}));
  command->add_option("--out", arguments.file,
                      "that file; default: order.safetensors");
  command->callback([&] { data_order_command(arguments); });
}

void define_data_check(CLI::App& data, DataCheckArguments& arguments) {
  CLI::App* command = data.add_subcommand(
      "check",
      "Read all data of a config to the end, and say what is there.\n"
      "Prints each file or sample that is damaged or not finite; then classes "
      "and\ntheir images, files that are left out, the vocabulary. Exit status "
      "2 where\nsomething is damaged that a run would meet.");
  add_config(*command, arguments.config);
  command->add_flag("--list", arguments.list,
                    "also print a line for each image file: SPLIT LABEL CLASS\n"
                    "HEIGHTxWIDTH ORIENTATION PATH");
  command->callback([&] { data_check_command(arguments); });
}

void define_data_fetch(CLI::App& data, DataFetchArguments& arguments,
                       const ProgramOptions& program) {
  CLI::App* command = data.add_subcommand(
      "fetch", "Download published data sets: " + program.fetchable +
                   ".\nContinues an interrupted download, checks the SHA-256, "
                   "and leaves "
                   "files\nthat are already there unchanged.");
  command->add_option("names", arguments.names, "data sets")->required();
  command
      ->add_option("--root", arguments.root,
                   "the folder of data files, as data.root of a config")
      ->envname("SLUICE_DATA");
  command->add_option("--from", arguments.url,
                      "the URL of a folder with the files, for one data set, "
                      "instead of the published URL");
  command->callback([&] { program.fetch(arguments); });
}

}  // namespace sluice
