#include "transport/meeting/meeting.h"

#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "transport/meeting/hall.h"
#include "transport/meeting/reunions.h"

namespace sluice {

namespace asio = boost::asio;

Meeting::Meeting(IoThread& io, const Transport& transport,
                 MeetingOptions options)
    : io_(io),
      transport_(transport),
      hall_(std::make_shared<Hall>(io.context().get_executor(), transport,
                                   std::move(options))),
      // Reunions hold it too, so that who listened goes on listening for them.
      open_(hall_.get(), [hall = hall_](Hall*) {
        asio::post(hall->executor(), [hall] { hall->close(); });
      }) {}

Meeting::~Meeting() = default;

std::string Meeting::listen(const Place& place) {
  Listener listener = transport_.listen(io_.context(), place);
  listener.acceptor.native_non_blocking(true);
  asio::co_spawn(io_.context(),
                 Hall::accept_all(hall_, std::move(listener.acceptor)),
                 asio::detached);
  return listener.address;
}

void Meeting::call(std::string address, Hello mine) {
  asio::co_spawn(io_.context(),
                 Hall::call(hall_, std::move(address), std::move(mine)),
                 asio::detached);
}

void Meeting::greet(Stream stream, Hello mine) {
  asio::co_spawn(io_.context(),
                 Hall::greet(hall_, std::move(stream), std::move(mine)),
                 asio::detached);
}

std::shared_ptr<Reunion> Meeting::reunion_of_caller(std::string address,
                                                    Hello mine) {
  return make_calling_reunion(open_, std::move(address), std::move(mine));
}

std::shared_ptr<Reunion> Meeting::reunion_of_called(Hello mine) {
  return make_waiting_reunion(open_, std::move(mine));
}

bool Meeting::has_met(std::uint32_t block) const {
  return hall_->has_met(block);
}

Refusals Meeting::refusals() const {
  return hall_->refusals();
}

void Meeting::wait_to_meet(std::uint32_t block,
                           std::chrono::steady_clock::time_point until,
                           const std::function<void()>& check) {
  hall_->wait_to_meet(block, until, check);
}

Guest Meeting::wait_for(std::uint32_t block,
                        std::chrono::steady_clock::time_point until,
                        const std::function<void()>& check) {
  return hall_->wait_for(block, until, check);
}

}  // namespace sluice
