#pragma once

#include <string>

namespace sluice {

/// Writes files of CIFAR-10's and MNIST's formats and a text, filled with
/// noise, into the folder. Throws UserError.
void write_noise_data(const std::string& root);

}  // namespace sluice
