#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "tests/transport/fault_proxy.h"
#include "tests/transport/links_under_test.h"
#include "tests/transport/test_secret.h"
#include "transport/meeting/meeting.h"

namespace sluice {

/// A link that reconnects, through a proxy that breaks it. The meetings in
/// which it began are over.
struct BreakingLink {
  BreakingLink(const std::string& transport, std::size_t capacity,
               Deadline reconnect, FaultProxy::Plan plan,
               Deadline deadline = std::chrono::minutes(1)) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::hours(1);
    Meeting called(upper_io, transport_of(transport),
                   {.identity = {.secret = test_secret(), .from = 2}});
    Meeting caller(lower_io, transport_of(transport),
                   {.identity = {.secret = test_secret(), .from = 1}});
    target = called.listen({.folder = folder.path(), .name = "b2"});
    proxy = std::make_unique<FaultProxy>(
        transport, Place{.folder = folder.path(), .name = "proxy"}, target,
        std::move(plan));
    Hello up{.from = 1,
             .to = 2,
             .capacity_send = capacity,
             .capacity_receive = capacity,
             .reconnect_ms = static_cast<std::uint64_t>(reconnect.count())};
    Hello down = up;
    std::swap(down.from, down.to);
    caller.call(proxy->address(), up);
    LinkOptions options = test_options(capacity, deadline);
    options.checksum = true;
    options.heartbeat = std::chrono::milliseconds(25);
    options.reconnect = reconnect;
    const std::vector<std::byte> answer = encode_hello(down);
    AcceptedPeer one = called.wait_for(1, until);
    down.session = one.session;
    if (reconnect.count() > 0)
      options.reconnector = called.reconnector_of_called(down);
    upper = open_link(upper_io, std::move(one.stream), options, answer);
    AcceptedPeer two = caller.wait_for(2, until);
    up.session = two.session;
    if (reconnect.count() > 0) {
      options.reconnector = caller.reconnector_of_caller(proxy->address(), up);
    }
    lower = open_link(lower_io, std::move(two.stream), options);
  }

  TestFolder folder = {};
  std::string target = {};
  std::unique_ptr<FaultProxy> proxy = nullptr;
  IoThread lower_io = {};
  IoThread upper_io = {};
  Link lower = {};
  Link upper = {};
};

}  // namespace sluice
