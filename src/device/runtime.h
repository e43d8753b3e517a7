// What src/device needs of a driver, one thread's stream on a device at a time. Two sets of
// definitions: runtime_cuda.cc over the CUDA runtime, runtime_absent.cc where there is no toolkit.
// Devices count from 0. Throws Error with the driver's words.
#pragma once

#include <cstddef>
#include <string>

namespace thinwire::device {

const std::string& problem();  // why there is none; empty when there is
int count();
std::string name(int device);

void* allocate(int device, std::size_t bytes);  // in the order of the stream
void release(int device, void* memory) noexcept;
void* allocate_pinned(std::size_t bytes) noexcept;  // null: none to be had
void release_pinned(void* memory) noexcept;

// One of both may be the host's memory, which may be used again when the call returns.
void copy(int device, void* to, const void* from, std::size_t bytes, bool with_host);
// From one device to another, in the order of the first one's stream.
void copy_between(int from_device, const void* from, int to_device, void* to, std::size_t bytes);
void zero(int device, void* memory, std::size_t bytes);

void wait(int device);
bool idle(int device);

void* record(int device);              // an event in this thread's stream
void follow(int device, void* event);  // this thread's stream waits for it
void forget(int device, void* event) noexcept;

}  // namespace thinwire::device
