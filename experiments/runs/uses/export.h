#pragma once

#include <cstdint>
#include <string>

#include "experiments/config/experiment.h"

namespace sluice {

/// A checkpoint of a run, by the name that people have for it.
struct NamedCheckpoint {
  std::string folder;  ///< of the run
  std::string path;    ///< of the checkpoint itself, no link
  std::int64_t turn = 0;
};

/// `path`: a run's folder, or a checkpoint in one. `name`, of a run's: "best",
/// "last", "turn-000120", or "120"; empty: its best, or else its last. Throws
/// UserError, which says what is there, when this isn't.
NamedCheckpoint find_checkpoint(const std::string& path,
                                const std::string& name);

/// Writes the weights and buffers of the whole model, from all blocks of the
/// checkpoint, into one safetensors file; what belongs to heads and
/// synthesizers stays behind, and adapters are added to the weights beside
/// them. The file's metadata are texts:
///
///   format      "pt", as others' readers of safetensors expect it
///   sluice      version of the program that wrote it
///   name, turn  of the run and the checkpoint
///   build       commit of the program that trained it; commit: that of the
///               folder in which it was started, if it had one
///   model       JSON: the config's table [model]
///   sample      JSON: {"shape": [1, 28, 28], "classes": 10}
///   layers      JSON: what each layer is, for people
///   config      TOML: the run's resolved config
///
/// `names`: a table of name_tables() for the model, whose names the tensors
/// get; empty: those of checkpoints. Returns the number of tensors. Throws
/// UserError when the weights aren't those of the experiment's model, and when
/// they can't be read or written.
std::size_t export_model(const Experiment& experiment,
                         const NamedCheckpoint& from, const std::string& file,
                         const std::string& names = "");

/// Exports a run whose layers a program has made (Network), from what its
/// checkpoint holds of them; those of auxiliary heads are left out, too.
std::size_t export_own_layers(const ConfigNode& config,
                              const NamedCheckpoint& from,
                              const std::string& file);

/// Writes the TorchScript file of a run's model `torchscript` once more, with
/// the weights and buffers of the checkpoint, as `file`. Returns their number.
/// Throws UserError for a run of another model, and as export_model() does.
std::size_t export_torchscript(const Experiment& experiment,
                               const NamedCheckpoint& from,
                               const std::string& file);

}  // namespace sluice
