#include "transport/io_thread.h"

namespace sluice {

IoThread::IoThread()
    : context_(1),  // a hint: one thread runs it
      work_(context_.get_executor()),
      thread_([this] { context_.run(); }) {}

IoThread::~IoThread() {
  work_.reset();
  thread_.join();
}

}  // namespace sluice
