// Every kind of record: what is written, and that it is read again.
#include "lib/metrics/records.h"

#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace sluice::records_test {

/// Record of a line that versions before this struct have written: reading and
/// writing it again gives the line.
template <class T>
T read_again(const std::string& line) {
  const auto said = record_from_json(line).as<T>();
  EXPECT_TRUE(said) << line;
  EXPECT_EQ(to_json(said.value_or(T())), line);
  return said.value_or(T());
}

TEST(Records, RecordsOfTrainingAreThoseOfBefore) {
  const auto train = read_again<records::Train>(
      R"({"kind":"train","turn":7,"block":2,"batch":6,"loss":2.4126338958740234,"accuracy":0.078125,"lr":0.001,"d_batch":1,"d_upd":1,"shadow_cosine":0.5})");
  EXPECT_EQ(train.turn, 7);
  EXPECT_EQ(train.batch, 6);
  EXPECT_EQ(train.accuracy, 0.078125);
  EXPECT_EQ(train.figures, (NamedValues<double>{{"shadow_cosine", 0.5}}));
  EXPECT_FALSE(
      read_again<records::Train>(
          R"({"kind":"train","turn":0,"block":1,"batch":0,"lr":0.001,"d_batch":0,"d_upd":0})")
          .loss);
  const auto lesson = read_again<records::Lesson>(
      R"({"kind":"lesson","turn":0,"block":1,"batch":0,"synthesizer_loss":0.3930666744709015})");
  EXPECT_EQ(lesson.losses.front().first, "synthesizer_loss");
  const auto hash = read_again<records::Hash>(
      R"({"kind":"hash","turn":1,"block":2,"batch":1,"gradient of layers.2.linear.bias":"0c1b152d6fdc9fcf","layers.2.linear.bias":"6d50f23ad154779b"})");
  EXPECT_EQ(hash.tensors.size(), 2U);
  const auto probe = read_again<records::Probe>(
      R"({"kind":"probe","turn":2,"block":1,"batch":2,"cosine":0.1660060998995364,"norm_ratio":80.22641477536091,"sign_agreement":0.5381944444444444})");
  EXPECT_EQ(probe.norm_ratio, 80.22641477536091);
  read_again<records::ExchangeProbe>(
      R"({"kind":"exchange_probe","turn":2,"block":1,"batch":2,"cosine":0.5,"norm_ratio":80.25,"sign_agreement":0.75})");
  const auto layer = read_again<records::LayerProbe>(
      R"({"kind":"layer_probe","turn":2,"block":1,"batch":2,"layer":3,"cosine":0.5,"norm_ratio":80.25,"sign_agreement":0.75})");
  EXPECT_EQ(layer.layer, 3);
  EXPECT_EQ(Record(layer).read<records::Place>().layer, 3);
}

TEST(Records, RecordsOfEvaluationsAreThoseOfBefore) {
  const auto evaluation = read_again<records::Evaluation>(
      R"({"kind":"evaluation","turn":188,"epoch":1.0,"loss":0.3262446184158325,"accuracy":0.951,"validation_loss":"nan","validation_accuracy":0.9,"time":5.417818646})");
  EXPECT_EQ(evaluation.accuracy, 0.951);
  EXPECT_TRUE(std::isnan(*evaluation.validation_loss));
  EXPECT_EQ(evaluation.time, 5.417818646);
  read_again<records::LostReplica>(
      R"({"kind":"lost_replica","turn":8,"replica":3,"turns_left_out":12,"reason":"the worker of block 1 of replica 3 ended before its work"})");
  read_again<records::CentreLoss>(
      R"({"kind":"centre_loss","turn":9,"block":1,"replica":3,"place":41,"served":38,"merged":0,"rests":1})");
  read_again<records::JoinedReplica>(
      R"({"kind":"joined_replica","turn":48,"replica":3})");
  read_again<records::ReturnedReplica>(
      R"({"kind":"returned_replica","turn":20,"replica":3,"turns_left_out":12,"weights":"agreed"})");
  read_again<records::EarlyStop>(
      R"({"kind":"early_stop","turn":24,"split":"test","measure":"accuracy","best":0.075,"best_turn":6,"without_progress":3})");
  read_again<records::Divergence>(
      R"({"kind":"diverged","turn":9,"block":2,"loss":"inf","reason":"diverged: the loss"})");
  read_again<records::Phase>(R"({"kind":"phase","turn":20,"phase":1})");
}

TEST(Records, RecordsOfWhatBlocksCostAreThoseOfBefore) {
  const auto block = read_again<records::Block>(
      R"({"kind":"block","block":2,"parameters":202378,"forward_s":0.5,"backward_s":0.25,"update_s":0.07,"learn_s":0.0,"evaluate_s":0.03,"waiting_s":3.8,"weights_bytes":810544,"optimizer_bytes":1619048,"stash_bytes":0,"history_bytes":100480,"queue_bytes":100480,"graph_bytes":118400,"peak_bytes":5154282,"resident_bytes":22073344,"reconnections":1,"up_by_ipc":1,"up_through_host":2,"down_by_ipc":3,"down_through_host":4})");
  EXPECT_EQ(block.memory.peak_bytes, 5154282);
  read_again<records::Forecast>(
      R"({"kind":"forecast","block":1,"weights_bytes":328608,"optimizer_bytes":655432,"stash_bytes":0,"history_bytes":201216,"queue_bytes":401408,"graph_bytes":13246848,"peak_bytes":21093480,"channels_bytes":2008576})");
  read_again<records::Staleness>(
      R"({"kind":"staleness","block":2,"counter":"d_batch","value":0,"times":750})");
  read_again<records::DropCount>(
      R"({"kind":"dropped","boundary":1,"messages":12})");
}

TEST(Records, RecordsOfTheRunAreThoseOfBefore) {
  read_again<records::Summary>(
      R"({"kind":"summary","name":"quickstart-backprop","method":"delayed_gradient","engine":"virtual","blocks":3,"accuracy":0.4375,"loss":1.98,"validation_accuracy":0.5,"validation_loss":1.5,"seconds":1.023252428,"samples_per_second":748.5,"virtual_seconds":0.48,"virtual_samples_per_second":1564.5,"time":1.043467711})");
  read_again<records::Clock>(
      R"({"kind":"clock","seconds":0.4896004836319642,"samples_per_second":1564.4540240778965,"speed_up":2.205880173949834})");
  read_again<records::Clock>(
      R"({"kind":"clock","block":1,"busy_s":0.3784009954275167,"utilisation":0.7728770866818897})");
  read_again<records::Injection>(
      R"({"kind":"injection","block":2,"at_turn":5,"fault":"kill block 2 @ turn 5","pid":7266,"signal":9})");
  read_again<records::Ways>(
      R"({"kind":"ways","block 1 - block 2":"shared_memory: one host","block 2 - block 3":"tls: two hosts"})");
  read_again<records::Restart>(
      R"({"kind":"restart","turn":8,"restart":1,"block":2,"lost_turns":0,"lost_seconds":1.19072908,"reason":"the worker process 7287 of block 2 was ended by signal 9"})");
}

TEST(Records, RecordsOfTheVirtualClockAreThoseOfBefore) {
  const std::string line =
      R"({"at_3":0.25,"busy_3":0.125,"turns":7,"at_1":0.5,"busy_1":0.375,"kind":"saved_clock","turn":7,"phase":1,"gradient_1_4":0.75,"gradient_1_15":1.0})";
  const auto clock = records::saved_clock_from(record_from_json(line));
  ASSERT_TRUE(clock);
  EXPECT_EQ(to_json(to_record(*clock)), line);
  EXPECT_EQ(clock->blocks.front().block, 3);
  EXPECT_EQ(clock->gradients.at({1, 15}), 1.0);
  EXPECT_FALSE(records::saved_clock_from(records::Phase{}));
}

TEST(Records, ThatGoToTheRunAloneComeBack) {
  read_again<records::Status>(
      R"({"kind":"status","turn":3,"block":1,"batch":2,"clock":10.5,"waiting_s":0.5,"queue_below_bytes":0,"queue_above_bytes":64})");
  read_again<records::Action>(
      R"({"kind":"action","seat":1,"turn":3,"batch":2,"name":"B2","category":"backward","start":10.5,"end":11.0,"waiting_bytes":64,"staleness":1})");
  read_again<records::SentMessage>(
      R"({"kind":"sent","seat":1,"turn":3,"peer":2,"message":"activation","batch":2,"round":1,"start":10.5,"end":11.0})");
  read_again<records::TakenMessage>(
      R"({"kind":"taken","seat":1,"turn":3,"peer":2,"message":"gradient","batch":2,"start":10.5,"end":11.0})");
  read_again<records::Actions>(
      R"({"kind":"actions","block":1,"phase":0,"actions":"F0 B0 U0","part":1})");
  read_again<records::ClockOffset>(
      R"({"kind":"clock_offset","seat":1,"offset_s":0.5,"uncertainty_s":0.25})");
}

TEST(Records, AreNothingOfAnotherKind) {
  const Record record = record_from_json(R"({"kind":"train","turn":7})");
  EXPECT_FALSE(record.as<records::Lesson>());
  EXPECT_FALSE(Record{}.as<records::Train>());
  EXPECT_FALSE(record_from_json(R"({"kind":3})").as<records::Train>());
}

// A younger program may have written them, or an older one.
TEST(Records, LeaveOutWhatTheyDontKnowAndKeepDefaultsForWhatIsMissing) {
  const auto evaluation =
      record_from_json(R"({"kind":"evaluation","turn":7,"colour":"red"})")
          .as<records::Evaluation>();
  EXPECT_EQ(evaluation->turn, 7);
  EXPECT_TRUE(std::isnan(evaluation->loss));
  EXPECT_FALSE(evaluation->validation_loss);
}

TEST(Records, KeepDefaultsForWhatIsOfAnotherTypeOrTooLarge) {
  const auto restart =
      record_from_json(
          R"({"kind":"restart","turn":"nan","restart":1e300,"block":4294967296,"lost_turns":2.5,"lost_seconds":3,"reason":7})")
          .as<records::Restart>();
  EXPECT_EQ(restart->turn, 0);
  EXPECT_EQ(restart->restart, 0);
  EXPECT_EQ(restart->block, 0);
  EXPECT_EQ(restart->lost_turns, 2);
  EXPECT_EQ(restart->lost_seconds, 3.0);
  EXPECT_EQ(restart->reason, "");
}

TEST(Records, SayWhereTheyBelongWhateverTheirKind) {
  Record record = records::Phase{.turn = 20, .phase = 1};
  records::stamp(record, 2.5);
  const auto place = record.read<records::Place>();
  EXPECT_EQ(place.kind, "phase");
  EXPECT_EQ(place.turn, 20);
  EXPECT_EQ(place.phase, 1);
  EXPECT_EQ(place.time, 2.5);
  EXPECT_FALSE(place.block);
}

}  // namespace sluice::records_test
