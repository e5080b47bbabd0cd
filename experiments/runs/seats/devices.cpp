#include "experiments/runs/seats/devices.h"

#include "lib/base/by_block.h"
#include "lib/schedules/replicas/replicas.h"
#include "lib/tensors/device.h"

namespace sluice {

c10::Device device_of_seat(const Experiment& experiment, int seat,
                           std::optional<int> local_rank) {
  const int block = experiment.seat_names().block_of(seat);
  return device_for(by_block(experiment.devices, block), block, local_rank);
}

void check_devices(const Experiment& experiment) {
  for (int block = 1; block <= experiment.blocks(); ++block)
    device_of_seat(experiment, block);
}

}  // namespace sluice
