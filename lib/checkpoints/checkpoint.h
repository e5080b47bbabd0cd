#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lib/tensors/tensors.h"

namespace sluice {

/// A checkpoint is a folder "turn-000120" with two files per block: weights
/// (named as in the uncut model) and the state that training needs beside them
/// (the optimizer's). It is built up under the name "turn-000120.partial",
/// which is changed when every block has written its part: a folder with the
/// final name is whole.
///
/// Where blocks have replicas, what lies in the folder itself is of replica 1,
/// with the weights that all agree on; what is of another one alone lies
/// beneath it in "replica-2", and replica 1's own weights in "replica-1" where
/// they are others.

/// Block and replica that a part of a checkpoint belongs to.
struct BlockReplica {
  int block = 1;
  int replica = 1;
};

/// Works in the folder of a run's checkpoints, whose run may be moved meanwhile
/// (work_while_moved()).
void work_on_checkpoints(const std::string& checkpoints,
                         const std::function<void()>& work);

/// Writes a part. Called by its worker.
void save_block(const std::string& checkpoints, std::int64_t turn,
                const BlockReplica& whose, const NamedTensors& weights,
                const NamedTensors& state);
/// Writes what replica 1 goes on with, where all agreed on other weights.
void save_own_weights(const std::string& checkpoints, std::int64_t turn,
                      int block, const NamedTensors& weights);

/// Makes the checkpoint of that turn final, replacing one of an earlier run of
/// the same turn. Called once, when all blocks have saved. It is on the disk
/// when this returns: then an older one may go.
void finish_checkpoint(const std::string& checkpoints, std::int64_t turn);

/// Moves a checkpoint that is whole into another folder of checkpoints, which
/// may be in another file system; there, too, it is whole or isn't there.
/// Returns its new folder. Throws UserError.
std::string move_checkpoint(const std::string& checkpoint,
                            const std::string& checkpoints);

/// Removes a checkpoint; one that is removed in part isn't called whole.
void remove_checkpoint(const std::string& checkpoint);

/// Removes what was not finished, as far as it can be.
void remove_partial_checkpoints(const std::string& checkpoints) noexcept;

/// The folder of a checkpoint that is whole.
std::string checkpoint_folder(const std::string& checkpoints,
                              std::int64_t turn);

/// The turn of such a folder's name; nothing for other names, partial ones too.
std::optional<std::int64_t> turn_of(const std::string& folder);

/// The whole checkpoints in the folder of a run's checkpoints, by turn.
std::map<std::int64_t, std::string> find_checkpoints(
    const std::string& checkpoints);

/// The weights of all blocks together, sorted by file: any cut of the same
/// model can take them. `path` is a checkpoint, a safetensors file (from
/// another framework, say), the index of several, or a folder that has such a
/// file or index.
NamedTensors load_weights(const std::string& path);

/// The state of all blocks together.
NamedTensors load_state(const std::string& checkpoint);
/// The part of that state that block 1's worker keeps, "workers.1.*", without
/// reading the rest.
NamedTensors load_counters(const std::string& checkpoint);

/// What a replica goes on with: its own, where the checkpoint has that, and
/// what all agreed on.
NamedTensors load_own_weights(const std::string& checkpoint, int replica);
NamedTensors load_own_state(const std::string& checkpoint, int replica);

/// Whether a replica's own part is there for each block of the checkpoint. One
/// that was lost meanwhile may have written some of it, or nothing.
bool has_replica(const std::string& checkpoint, int replica);

/// Copies the tensors into those of the same name. Throws UserError, naming
/// `source`, when one is missing, has another shape, or a type whose values the
/// other can't all hold; names in `from` that aren't asked for are fine.
void copy_by_name(const NamedTensors& from, const NamedTensors& into,
                  std::string_view source);

}  // namespace sluice
