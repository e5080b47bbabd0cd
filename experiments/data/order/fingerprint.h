#pragma once

#include "experiments/data/samples/data_set.h"
#include "lib/base/config_node.h"

namespace sluice {

/// Fingerprints that tell data files from others of the same names: for each
/// file its name, how many bytes it has, and their CRC-32C. A gzipped file
/// (.gz) counts as what is in it. Reads all of every file once: a copy that
/// differs in one byte is found, but not one that was forged on purpose. Of a
/// file above 1 GiB it reads 64 pieces of 1 MiB, and of a set of many files
/// only the names and sizes (DataSet::listing). A file that hasn't changed
/// since the last call isn't read again.
ConfigNode fingerprint_of(const DataSet& data);

}  // namespace sluice
