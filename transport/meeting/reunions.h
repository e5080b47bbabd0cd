#pragma once

#include <memory>
#include <string>

#include "transport/links/hello.h"
#include "transport/links/reunion.h"

namespace sluice {

class Hall;

/// Those that Meeting gives out. They hold the hall.
std::shared_ptr<Reunion> make_calling_reunion(std::shared_ptr<Hall> hall,
                                              std::string address, Hello mine);
std::shared_ptr<Reunion> make_waiting_reunion(std::shared_ptr<Hall> hall,
                                              Hello mine);

}  // namespace sluice
