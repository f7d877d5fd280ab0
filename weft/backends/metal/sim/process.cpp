#include "weft/backends/metal/sim/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/check.h"

extern char** environ;

namespace weft::metal::sim {

ProcessResult run_process(const std::vector<std::string>& program_and_arguments) {
  std::vector<char*> arguments;
  for (const std::string& a : program_and_arguments) arguments.push_back(const_cast<char*>(a.c_str()));
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::unsupported, program_and_arguments[0], "cannot create a pipe: ", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  ProcessResult result;
  if (error == 0) {
    char block[4096];
    for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0 || (n < 0 && errno == EINTR);) {
      if (n > 0) result.output.append(block, size_t(n));
    }
    while (waitpid(child, &result.status, 0) < 0 && errno == EINTR) {
    }
  }
  close(ends[0]);
  if (error != 0) fail(ErrorCode::unsupported, program_and_arguments[0], "cannot be started: ", std::strerror(error));
  return result;
}

}  // namespace weft::metal::sim
