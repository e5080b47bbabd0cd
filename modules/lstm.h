#pragma once

namespace sluice {

/// Whether LibTorch can train an LSTM in bf16 on this processor: oneDNN, which
/// it uses there, can't without the instructions. Tried once in a process.
bool has_bf16_lstm();

}  // namespace sluice
