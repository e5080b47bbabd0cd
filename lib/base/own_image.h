#pragma once

#include <string>
#include <vector>

namespace sluice {

/// The file that a process starts more of itself from: the very program that it
/// runs, though another build may have taken its path, or nothing be there any
/// more. It is to be given to exec or posix_spawn, not to another process.
constexpr const char* kOwnImage = "/proc/self/exe";

/// Path of the program's file, or its last one; for other processes to start
/// it, and to be shown.
std::string path_of_own_image();

/// The command line that this process was started with, whatever its main() has
/// made of it.
std::vector<std::string> own_command_line();

/// Lets `ps` and `top` show this process under the name of its program, which
/// it has lost when it was started from kOwnImage.
void show_own_name();

/// A write beyond the limit on a file's size (ulimit -f) then fails, and is
/// told as a full disk is; it would end the process. Children inherit this.
void let_large_writes_fail();

}  // namespace sluice
