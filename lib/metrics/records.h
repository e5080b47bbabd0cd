#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/metrics/record.h"

/// A struct for every kind of line in a metrics.jsonl, and for the other
/// records that workers send to the launcher. A struct lists its fields once,
/// for writing in this order and for reading. Optional fields may be absent
/// from a line.
namespace sluice::records {

using Bytes = std::optional<std::int64_t>;
using Figure = std::optional<double>;

/// Fields that several kinds share, for readers that don't depend on the kind.
struct Place {
  std::string kind = {};
  std::optional<std::int64_t> turn = {};
  std::optional<int> block = {};
  std::optional<int> replica = {};  ///< where the block has several
  std::optional<int> layer = {};
  std::optional<std::int64_t> batch = {};
  std::optional<std::int64_t> phase = {};
  Figure time = {};  ///< seconds since the run's start

  SLUICE_FIELDS(kind, turn, block, replica, layer, batch, phase, time)
};
/// Sets the field `time`; the sink of a run calls it for each record.
void stamp(Record& record, double time);
/// Whether `name` is a field of Place, and not a measured figure.
bool is_place(std::string_view name);

/// Fields common to all kinds about a block and a batch.
struct BatchFields {
  std::int64_t turn = 0;
  int block = 0;
  std::optional<int> replica = {};
  std::int64_t batch = 0;
  Figure time = {};

  SLUICE_FIELDS(turn, block, replica, batch, time)
};

/// An update of a block, which applied the batch.
struct Train : BatchFields {
  Figure loss = {};
  Figure accuracy = {};
  double lr = 0;
  std::int64_t d_batch = 0;          ///< staleness in batches
  std::int64_t d_upd = 0;            ///< staleness in updates
  NamedValues<double> figures = {};  ///< of the policy

  SLUICE_RECORD("train", turn, block, replica, batch, time, loss, accuracy, lr,
                d_batch, d_upd, figures)
};

/// Losses of a predictor (synthesizer or input model) on a batch.
struct Lesson : BatchFields {
  NamedValues<double> losses = {};  ///< Lesson::loss_name of lib/boundaries

  SLUICE_RECORD("lesson", turn, block, replica, batch, time, losses)
};

/// What the assistant of a source had learned from since the batch before, when
/// it drew this one (AutoAssist). `deal`: the batch by the numbers of the
/// source; `learned`: such numbers, with blanks between.
struct AssistedDraw : BatchFields {
  std::int64_t deal = 0;
  std::string learned = {};

  SLUICE_RECORD("drawn", turn, block, replica, batch, time, deal, learned)
};

/// The whole model after so many turns, on the test split and, where there are
/// such, the validation split and a part of the training samples.
struct Evaluation {
  std::int64_t turn = 0;
  double epoch = kNone;
  double loss = kNone;
  double accuracy = kNone;  ///< not written where the targets are numbers
  Figure validation_loss = {};
  Figure validation_accuracy = {};
  Figure training_loss = {};
  Figure training_accuracy = {};
  // Coefficient of determination, where the targets are numbers.
  Figure r2 = {};
  Figure validation_r2 = {};
  Figure training_r2 = {};
  /// Loss of a text in bits per byte, for any tokens; where the tokenizer is
  /// known.
  Figure bits_per_byte = {};
  Figure time = {};

  SLUICE_RECORD("evaluation", turn, epoch, loss, accuracy, validation_loss,
                validation_accuracy, training_loss, training_accuracy, r2,
                validation_r2, training_r2, bits_per_byte, time)

 private:
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
};

/// Progress of a block, for `sluice watch`; not written to metrics.jsonl.
struct Status : BatchFields {
  double clock = 0;  ///< seconds, of the worker's machine
  double waiting_s = 0;
  std::int64_t queue_below_bytes = 0;
  std::int64_t queue_above_bytes = 0;

  SLUICE_RECORD("status", turn, block, replica, batch, time, clock, waiting_s,
                queue_below_bytes, queue_above_bytes)
};

/// Activations that a boundary has dropped, at the run's end.
struct DropCount {
  int boundary = 0;
  std::int64_t messages = 0;

  SLUICE_RECORD("dropped", boundary, messages)
};

/// Hashes after an update.
struct Hash : BatchFields {
  NamedValues<std::string> tensors =
      {};  ///< "gradient of NAME", or a tensor's name

  SLUICE_RECORD("hash", turn, block, replica, batch, time, tensors)
};

/// How often a block saw a value of a counter, at the run's end.
struct Staleness {
  int block = 0;
  std::optional<int> replica = {};
  std::string counter = {};  ///< "d_batch", "d_upd", "input_age", "input_reuse"
  std::int64_t value = 0;
  std::int64_t times = 0;

  SLUICE_RECORD("staleness", block, replica, counter, value, times)
};

/// What a block applied, against back-propagation.
struct Probe : BatchFields {
  double cosine = 0;
  double norm_ratio = 0;
  double sign_agreement = 0;

  SLUICE_RECORD("probe", turn, block, replica, batch, time, cosine, norm_ratio,
                sign_agreement)
};

/// Gradients that the replicas of a block apply in a turn, against the mean of
/// those of back-propagation. The batch is that of replica 1.
struct ExchangeProbe : BatchFields {
  double cosine = 0;
  double norm_ratio = 0;
  double sign_agreement = 0;

  SLUICE_RECORD("exchange_probe", turn, block, batch, time, cosine, norm_ratio,
                sign_agreement)
};

/// Like Probe, for one layer of the block.
struct LayerProbe : BatchFields {
  int layer = 0;  ///< its place in the uncut model, from 0
  double cosine = 0;
  double norm_ratio = 0;
  double sign_agreement = 0;

  SLUICE_RECORD("layer_probe", turn, block, replica, batch, time, layer, cosine,
                norm_ratio, sign_agreement)
};

/// The most that a block holds, by purpose; part of other kinds.
struct Memory {
  Bytes weights_bytes = {};
  Bytes optimizer_bytes = {};
  Bytes stash_bytes = {};
  Bytes history_bytes = {};
  Bytes queue_bytes = {};  ///< messages that have come and wait
  /// The centre of its block's replicas that lies with this one.
  Bytes centre_bytes = {};
  Bytes graph_bytes = {};
  /// Most of all at once, gradients and temporaries too. Unknown, like the line
  /// before it, without the caching allocator, which counts them.
  Bytes peak_bytes = {};
  /// In a forecast: more when its channels are full, which a slow neighbour,
  /// link or machine may cause: messages that wait at either end.
  Bytes channels_bytes = {};

  SLUICE_FIELDS(weights_bytes, optimizer_bytes, stash_bytes, history_bytes,
                queue_bytes, centre_bytes, graph_bytes, peak_bytes,
                channels_bytes)
};

/// What a block has cost, at the run's end.
struct Block {
  int block = 0;
  std::optional<int> replica = {};
  std::int64_t parameters = 0;
  double forward_s = 0;
  double backward_s = 0;
  double update_s = 0;
  double learn_s = 0;
  double evaluate_s = 0;
  double waiting_s = 0;
  Memory memory = {};
  Bytes resident_bytes = {};  ///< by which its process grew
  std::optional<std::int64_t> reconnections = {};
  // Tensors of a GPU that stayed on GPUs, or went over the host.
  std::optional<std::int64_t> up_by_ipc = {};
  std::optional<std::int64_t> up_through_host = {};
  std::optional<std::int64_t> down_by_ipc = {};
  std::optional<std::int64_t> down_through_host = {};
  // Reasons why tensors go through the host, up and down, where the neighbour
  // is on a GPU too.
  std::optional<std::string> up_why_host = {};
  std::optional<std::string> down_why_host = {};
  // Tensors for other replicas of the block, likewise.
  std::optional<std::int64_t> replicas_by_ipc = {};
  std::optional<std::int64_t> replicas_through_host = {};
  std::optional<std::string> replicas_why_host = {};
  /// Messages of training to neighbours, since the process began: tensors with
  /// labels, as the codec wrote them.
  Bytes up_bytes = {};
  Bytes down_bytes = {};
  /// Compressed gradients that were sent to other replicas.
  Bytes compressed_bytes = {};
  // Counts of quorums: gradients of this replica that came too late, turns that
  // it left out for that, and merges without it.
  std::optional<std::int64_t> late_gradients = {};
  std::optional<std::int64_t> turns_left_out = {};
  std::optional<std::int64_t> merges_without_it = {};
  /// Seconds after a merge for which the centre waits for a replica, at the
  /// end, where that follows the arrivals; absent: it waits for all.
  std::optional<double> awaited_s = {};

  SLUICE_RECORD("block", block, replica, parameters, forward_s, backward_s,
                update_s, learn_s, evaluate_s, waiting_s, memory,
                resident_bytes, reconnections, up_by_ipc, up_through_host,
                down_by_ipc, down_through_host, up_why_host, down_why_host,
                replicas_by_ipc, replicas_through_host, replicas_why_host,
                up_bytes, down_bytes, compressed_bytes, late_gradients,
                turns_left_out, merges_without_it, awaited_s)
};

/// Transports of the run's links, with the reason, where the config left that
/// to the run: "block 1 - block 2" is "tls: two hosts".
struct Ways {
  NamedValues<std::string> links = {};

  SLUICE_RECORD("ways", links)
};

/// What memory a block will need, before the first turn.
struct Forecast {
  int block = 0;
  Memory memory = {};

  SLUICE_RECORD("forecast", block, memory)
};

/// An action of a seat's timeline, by the clock of its machine; in no
/// metrics.jsonl. Seats have their numbers of the plan.
struct Action {
  int seat = 0;
  std::int64_t turn = 0;
  std::int64_t batch = 0;
  std::string name = {};
  std::string category = {};
  double start = 0;
  double end = 0;
  std::int64_t waiting_bytes = 0;              ///< in its receivers, at its end
  std::optional<std::int64_t> staleness = {};  ///< of a backward, in batches

  SLUICE_RECORD("action", seat, turn, batch, name, category, start, end,
                waiting_bytes, staleness)
};

/// A message on that timeline: sent at the start, and there was room for it at
/// the end; or waited for from start to end.
struct MessageSpan {
  int seat = 0;
  std::int64_t turn = 0;
  int peer = 0;
  std::string message = {};  ///< of which kind
  std::int64_t batch = 0;
  std::optional<std::int64_t> round = {};
  double start = 0;
  double end = 0;

  SLUICE_FIELDS(seat, turn, peer, message, batch, round, start, end)
};
struct SentMessage : MessageSpan {
  static constexpr std::string_view kKind = "sent";
};
struct TakenMessage : MessageSpan {
  static constexpr std::string_view kKind = "taken";
};

/// Lead of a worker's clock over the coordinator's, and the most that it may be
/// wrong; in no metrics.jsonl.
struct ClockOffset {
  int seat = 0;
  double offset_s = 0;
  double uncertainty_s = 0;

  SLUICE_RECORD("clock_offset", seat, offset_s, uncertainty_s)
};

/// Actions of a block that runs free, in a phase; in no metrics.jsonl.
struct Actions {
  int block = 0;
  std::int64_t phase = 0;
  std::string actions = {};
  int part = 0;  ///< 1: more of their grant follows

  SLUICE_RECORD("actions", block, phase, actions, part)
};

/// Early stop of the run.
struct EarlyStop {
  std::int64_t turn = 0;
  std::string split = {};
  std::string measure = {};
  double best = 0;
  std::int64_t best_turn = 0;
  std::int64_t without_progress = 0;  ///< evaluations

  SLUICE_RECORD("early_stop", turn, split, measure, best, best_turn,
                without_progress)
};

/// Begin of a phase of the timetable.
struct Phase {
  std::int64_t turn = 0;
  std::int64_t phase = 0;

  SLUICE_RECORD("phase", turn, phase)
};

/// Restart of the run from an earlier turn, after a worker was lost.
struct Restart {
  std::int64_t turn = 0;
  std::int64_t restart = 0;  ///< number of this restart, from 1
  int block = 0;
  std::int64_t lost_turns = 0;
  double lost_seconds = 0;
  std::string reason = {};

  SLUICE_RECORD("restart", turn, restart, block, lost_turns, lost_seconds,
                reason)
};

/// A replica whose worker was lost, and without which the run goes on.
struct LostReplica {
  std::int64_t turn = 0;  ///< boundary to which it had come
  int replica = 0;
  std::int64_t turns_left_out = 0;  ///< of its share, from there to the end
  std::string reason = {};

  SLUICE_RECORD("lost_replica", turn, replica, turns_left_out, reason)
};

/// The centre of a block had lost a replica, as sluice::CentreLoss says, when
/// all others had next come to a rest.
struct CentreLoss {
  std::int64_t turn = 0;  ///< the last before that rest
  int block = 0;
  int replica = 0;
  std::int64_t place = 0;
  std::int64_t served = 0;
  std::int64_t merged = 0;
  int rests = 0;  ///< 1: it does

  SLUICE_RECORD("centre_loss", turn, block, replica, place, served, merged,
                rests)
};

/// A replica has joined the run, at the place of one that was lost, or that was
/// free.
struct JoinedReplica {
  std::int64_t turn = 0;  ///< with which it begins
  int replica = 0;

  SLUICE_RECORD("joined_replica", turn, replica)
};

/// A replica that was lost is there again: the run was continued, or restarted.
struct ReturnedReplica {
  std::int64_t turn = 0;  ///< with which it begins
  int replica = 0;
  std::int64_t turns_left_out = 0;  ///< of its share, since it was lost
  std::string weights = {};  ///< "own", or those "agreed" on by the others

  SLUICE_RECORD("returned_replica", turn, replica, turns_left_out, weights)
};

/// A fault that was asked for happens.
struct Injection {
  int block = 0;
  std::int64_t at_turn = 0;
  std::string fault = {};
  int pid = 0;
  int signal = 0;  ///< to be sent to that process; 0: none

  SLUICE_RECORD("injection", block, at_turn, fault, pid, signal)
};

/// A loss of the run is NaN or infinite.
struct Divergence {
  std::int64_t turn = 0;
  int block = 0;  ///< 0: an evaluation of all
  std::optional<int> replica = {};
  double loss = 0;
  std::string reason = {};

  SLUICE_RECORD("diverged", turn, block, replica, loss, reason)
};

/// What the virtual clock says at the run's end: a line for the run, and one
/// for each block.
struct Clock {
  std::optional<int> block = {};
  std::optional<int> replica = {};
  // The run's:
  Figure seconds = {};
  Figure samples_per_second = {};
  Figure speed_up = {};  ///< over one block
  // A block's:
  Figure busy_s = {};
  Figure utilisation = {};

  SLUICE_RECORD("clock", block, replica, seconds, samples_per_second, speed_up,
                busy_s, utilisation)
};

/// Where the virtual clock is at a checkpoint: values "at_BLOCK", "busy_BLOCK"
/// and "gradient_BLOCK_BATCH", in the order in which blocks have saved.
struct SavedClock {
  static constexpr std::string_view kKind = "saved_clock";
  struct BlockClock {
    int block = 0;
    double at = 0;
    double busy = 0;
  };
  std::int64_t turn = 0;
  std::int64_t phase = 0;
  std::int64_t turns = 0;  ///< done, when block 1 saved
  std::vector<BlockClock> blocks = {};
  /// Arrival times of gradients, by (block, batch).
  std::map<std::pair<int, std::int64_t>, double> gradients = {};
};
Record to_record(const SavedClock& clock);
std::optional<SavedClock> saved_clock_from(const Record& record);

/// Summary of the whole run, the last line of its records.
struct Summary {
  std::string name = {};
  std::string method = {};
  std::string engine = {};
  int blocks = 0;
  // Accuracy of the last evaluation, if there was one.
  Figure accuracy = {};
  Figure loss = {};
  Figure validation_accuracy = {};
  Figure validation_loss = {};
  Figure seconds = {};  ///< of training and evaluating, without start-up
  Figure samples_per_second = {};
  Figure tokens_per_second = {};  ///< of texts
  /// Operations of the model's layers, forward and backward (twice a forward),
  /// over the machine's peak (experiments/runs/folder/machine_peak.h). Nothing
  /// where that wasn't measured.
  Figure share_of_peak = {};
  Figure virtual_seconds = {};
  Figure virtual_samples_per_second = {};
  Figure time = {};

  SLUICE_RECORD("summary", name, method, engine, blocks, accuracy, loss,
                validation_accuracy, validation_loss, seconds,
                samples_per_second, tokens_per_second, share_of_peak,
                virtual_seconds, virtual_samples_per_second, time)
};

}  // namespace sluice::records
