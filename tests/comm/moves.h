// Checks of a communicator, called by all its ranks. They throw.
#pragma once

#include <string>

#include "weft/comm/communicator.h"

namespace weft::comm_test {

// Of exchange, barrier, broadcast, all_gather, all_gather_values and all_to_all.
void check_host_moves(Communicator& ranks);

// Of start, on a device of that name.
void check_transfers(Communicator& ranks, const std::string& device);

// Latency and rate of messages: printed by rank 0.
void print_times(Communicator& ranks);

// "0,1" of this process.
std::string bound_cores();

}  // namespace weft::comm_test
