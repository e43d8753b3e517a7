#include <algorithm>
#include <chrono>

#include "tests/support/fake_cuda/block.h"
#include "tests/support/fake_cuda/cuda_runtime.h"
#include "tests/support/fake_cuda/state.h"

namespace thinwire::fake_cuda {
namespace {

constexpr unsigned kMostThreads = 1024;

using Lock = std::unique_lock<std::mutex>;

// The streams of a thread, one for each device that it has used. What is left in them is done when
// the thread ends.
struct OwnStreams {
  OwnStreams() { prepare_thread(); }  // and so ends before what it needs
  ~OwnStreams() {
    for (const auto& [device, stream] : by_device) run_all(stream);
  }
  std::map<int, StreamPointer> by_device;
};
thread_local OwnStreams own_streams;

// A point in a stream.
struct Event {
  StreamPointer stream;
  std::uint64_t end = 0;
  std::chrono::steady_clock::time_point time;
};

StreamPointer make_stream(State& all, int device) {
  auto stream = std::make_shared<Stream>(device);
  std::erase_if(all.streams, [](const auto& one) { return one.expired(); });
  all.streams.push_back(stream);
  return stream;
}

// A handle that cudaStreamCreateWithFlags gave.
StreamPointer& created(cudaStream_t handle) { return *reinterpret_cast<StreamPointer*>(handle); }
Event& event_of(cudaEvent_t handle) { return *reinterpret_cast<Event*>(handle); }

bool is_done(const Event& event) { return !event.stream || event.stream->done >= event.end; }

}  // namespace

StreamPointer stream_of(State& all, cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) return nullptr;
  if (handle != cudaStreamPerThread) return created(handle);
  StreamPointer& stream = own_streams.by_device[current_device()];
  if (!stream) stream = make_stream(all, current_device());
  return stream;
}

void append(Stream& stream, Work work) {
  stream.work.push_back(std::move(work));
  ++stream.handed_over;
}

void run_until(const StreamPointer& stream, std::uint64_t end) {
  State& all = state();
  Lock lock(all.mutex);
  while (stream->done < end) {
    if (stream->running) {
      all.moved.wait(lock);
      continue;
    }
    stream->running = true;
    const Work work = std::move(stream->work.front());
    stream->work.pop_front();
    all.arena.open();
    lock.unlock();
    work.run();
    lock.lock();
    all.arena.close();
    stream->running = false;
    ++stream->done;
    all.moved.notify_all();
  }
}

void run_all(const StreamPointer& stream) {
  Lock lock(state().mutex);
  const std::uint64_t end = stream->handed_over;
  lock.unlock();
  run_until(stream, end);
}

cudaError_t hand_over(cudaStream_t handle, std::function<void()> work) {
  State& all = state();
  const Lock lock(all.mutex);
  if (const cudaError_t error = answer(all)) return remember(error);
  const StreamPointer stream = stream_of(all, handle);
  if (!stream) return remember(cudaErrorInvalidResourceHandle);
  append(*stream, {std::move(work), false});
  return cudaSuccess;
}

void start(unsigned blocks, unsigned threads, std::function<void()> thread) {
  if (blocks == 0 || threads == 0 || threads > kMostThreads) {
    remember(cudaErrorInvalidConfiguration);
    return;
  }
  const cudaError_t error = hand_over(
      cudaStreamPerThread,
      [blocks, threads, thread = std::move(thread)] { run_grid(blocks, threads, thread); });
  const Lock lock(state().mutex);
  if (error == cudaSuccess) ++state().launches;
}

std::size_t pending(int device) {
  const Lock lock(state().mutex);
  const auto found = own_streams.by_device.find(device);
  return found == own_streams.by_device.end() ? 0 : found->second->work.size();
}

}  // namespace thinwire::fake_cuda

using namespace thinwire::fake_cuda;

cudaError_t cudaDeviceSynchronize() {
  std::vector<StreamPointer> streams;
  {
    const Lock lock(state().mutex);
    if (const cudaError_t error = answer(state())) return remember(error);
    for (const auto& one : state().streams) {
      if (auto stream = one.lock(); stream && stream->device == current_device()) {
        streams.push_back(std::move(stream));
      }
    }
  }
  for (const StreamPointer& stream : streams) run_all(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  *stream =
      reinterpret_cast<cudaStream_t>(new StreamPointer(make_stream(state(), current_device())));
  return cudaSuccess;
}

// What is left in it is done first, as it would be on a device in the end.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    return remember(cudaErrorInvalidResourceHandle);
  }
  run_all(created(stream));
  delete &created(stream);
  const Lock lock(state().mutex);
  return remember(answer(state()));
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  StreamPointer stream;
  {
    const Lock lock(state().mutex);
    if (const cudaError_t error = answer(state())) return remember(error);
    stream = stream_of(state(), handle);
  }
  if (!stream) return remember(cudaErrorInvalidResourceHandle);
  run_all(stream);
  const Lock lock(state().mutex);
  return remember(loss(state()));
}

// Does a third of what waits, so that who asks again and again comes to an end.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  StreamPointer stream;
  std::uint64_t end = 0;
  {
    const Lock lock(state().mutex);
    if (const cudaError_t error = answer(state())) return remember(error);
    stream = stream_of(state(), handle);
    if (!stream) return remember(cudaErrorInvalidResourceHandle);
    if (stream->done == stream->handed_over) return cudaSuccess;
    end = stream->done + (stream->handed_over - stream->done + 2) / 3;
  }
  run_until(stream, end);
  return remember(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  Lock lock(state().mutex);
  const Event point = event_of(event);
  lock.unlock();
  return hand_over(handle, [point] {
    if (point.stream) run_until(point.stream, point.end);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  delete &event_of(event);
  const Lock lock(state().mutex);
  return remember(answer(state()));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  if (event == nullptr) return remember(cudaErrorInvalidResourceHandle);
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  const StreamPointer stream = stream_of(state(), handle);
  if (!stream) return remember(cudaErrorInvalidResourceHandle);
  event_of(event) = {stream, stream->handed_over, std::chrono::steady_clock::now()};
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  const Event point = event_of(event);
  lock.unlock();
  if (point.stream) run_until(point.stream, point.end);
  lock.lock();
  return remember(loss(state()));
}

// As cudaStreamQuery: a piece of the work at each call.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  const Event point = event_of(event);
  if (is_done(point)) return cudaSuccess;
  const std::uint64_t next = point.stream->done + 1;
  lock.unlock();
  run_until(point.stream, next);
  return remember(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = answer(state())) return remember(error);
  const Event first = event_of(begin);
  const Event last = event_of(end);
  if (!is_done(first) || !is_done(last)) return remember(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(last.time - first.time).count();
  return cudaSuccess;
}
