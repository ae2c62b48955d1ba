// The parts of executor_tests, as main.cc calls them. Each returns, or ends the process by CHECK.
#pragma once

#include <cstdint>

#include "programs.h"
#include "ranks.h"

namespace autotune::test {

void test_plans(const Programs& programs, std::uint64_t seed);     // Plan::derive, Program::load
void test_outbox_stores(const Programs& programs);                 // outbox_stores.h
void test_pattern();                                               // pattern.h
void test_reduce(std::uint64_t seed);                              // reduce.h, every variant that runs here
void test_codecs(std::uint64_t seed);                              // codec.h, every variant that runs here
void test_random_calls(const Programs& programs, RanksAre kind, std::uint64_t seed, int calls);
void test_random_calls_over_hosts(const Programs& programs, RanksAre kind, std::uint64_t seed, int calls);
void test_sockets(std::uint64_t seed);                             // socket_connection.h, socket_meeting.h
void test_lost_hosts(const Programs& programs, RanksAre kind);     // network.h, by sockets
void test_failures(const Programs& programs, RanksAre kind);

}  // namespace autotune::test
