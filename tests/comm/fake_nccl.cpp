// The functions of NCCL that Weft calls, between threads of one process: libnccl.so.2 for nccl_test. A group of messages is one piece of
// work on its stream, which waits until the last has come, as NCCL's kernel does.
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> sent;  // by sender and receiver
};

World& world_of(const ncclUniqueId& id) {
  static std::mutex mutex;
  static std::map<std::string, World> worlds;
  const std::lock_guard lock(mutex);
  return worlds[id.internal];
}

struct Message {
  const void* from;  // null: it is received
  void* to;
  size_t bytes;
  int other;
  ncclComm_t ranks;
  cudaStream_t stream;
};
thread_local std::vector<Message> group;

std::atomic<bool> failing = false;

}  // namespace

struct ncclComm {
  World& world;
  int rank;
  bool aborted = false;  // guarded by the world's mutex
};

namespace {

void send(const Message& message) {
  const char* const bytes = static_cast<const char*>(message.from);
  World& world = message.ranks->world;
  const std::lock_guard lock(world.mutex);
  world.sent[{message.ranks->rank, message.other}].emplace_back(bytes, bytes + message.bytes);
  world.changed.notify_all();
}

void receive(const Message& message) {
  World& world = message.ranks->world;
  std::unique_lock lock(world.mutex);
  auto& queue = world.sent[{message.other, message.ranks->rank}];
  world.changed.wait(lock, [&] { return message.ranks->aborted || !queue.empty(); });
  if (message.ranks->aborted) return;
  if (queue.front().size() != message.bytes) std::abort();
  std::memcpy(message.to, queue.front().data(), message.bytes);
  queue.pop_front();
}

void perform(void* data) {
  const std::unique_ptr<std::vector<Message>> messages(static_cast<std::vector<Message>*>(data));
  for (const Message& message : *messages)
    if (message.from) send(message);
  for (const Message& message : *messages)
    if (!message.from) receive(message);
}

}  // namespace

extern "C" {

void fake_nccl_fail() { failing = true; }

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION(2, 30, 7), ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t) { return "remote process exited"; }
const char* ncclGetLastError(ncclComm_t) { return "the cable was cut"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "world %d", ++made);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* ranks, int size, ncclUniqueId id, int rank) {
  World& world = world_of(id);
  std::unique_lock lock(world.mutex);
  ++world.joined;
  world.changed.notify_all();
  world.changed.wait(lock, [&] { return world.joined == size; });
  *ranks = new ncclComm{world, rank};
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t ranks) { return delete ranks, ncclSuccess; }
ncclResult_t ncclCommAbort(ncclComm_t ranks) {
  std::fputs("ncclCommAbort\n", stderr);
  const std::lock_guard lock(ranks->world.mutex);
  ranks->aborted = true;
  ranks->world.changed.notify_all();
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* found) {
  return *found = failing ? ncclRemoteError : ncclSuccess, ncclSuccess;
}

ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclSend(const void* from, size_t bytes, ncclDataType_t, int to, ncclComm_t ranks, cudaStream_t stream) {
  group.push_back({from, nullptr, bytes, to, ranks, stream});
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t bytes, ncclDataType_t, int from, ncclComm_t ranks, cudaStream_t stream) {
  group.push_back({nullptr, to, bytes, from, ranks, stream});
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group.empty()) return ncclSuccess;
  const cudaStream_t stream = group[0].stream;
  cudaLaunchHostFunc(stream, perform, new std::vector<Message>(std::move(group)));
  group.clear();
  return ncclSuccess;
}

}  // extern "C"
