# Debian 12 packages: libeigen3-dev cppzmq-dev libzmq3-dev libzstd-dev libgloo-dev libgtest-dev
# libbenchmark-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libspdlog-dev libfmt-dev
# libxxhash-dev libhwy-dev pkg-config
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Eigen3 3.4 CONFIG REQUIRED)
find_package(hwy CONFIG REQUIRED)
find_package(zstd CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(cppzmq CONFIG REQUIRED)
find_package(Gloo CONFIG REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
if(THINWIRE_TESTS)
  find_package(GTest CONFIG REQUIRED)
endif()
if(THINWIRE_BENCH)
  find_package(benchmark CONFIG REQUIRED)
endif()

# zstd 1.5.4 exports only libzstd_shared and libzstd_static, newer ones libzstd.
if(TARGET zstd::libzstd)
  set(THINWIRE_ZSTD zstd::libzstd)
else()
  set(THINWIRE_ZSTD zstd::libzstd_shared)
endif()

# What the library links privately, in three forms: targets here, packages that a user of the static
# library must find too (thinwireConfig.cmake), names for pkg-config --static.
set(THINWIRE_PRIVATE_TARGETS hwy::hwy PkgConfig::xxhash ${THINWIRE_ZSTD} spdlog::spdlog fmt::fmt
    cppzmq gloo)
set(THINWIRE_PRIVATE_PACKAGES hwy zstd fmt spdlog cppzmq Gloo)
set(THINWIRE_PC_PRIVATE "-lspdlog -lfmt -lhwy -lzstd -lxxhash -lzmq -lgloo")

# CUDA and NCCL are optional. CMake 3.25 has no C++20 dialect for nvcc: the two lines below give it one.
# clang 14 is no host compiler for CUDA 13, so clang builds go without.
set(THINWIRE_HAVE_CUDA OFF)
set(THINWIRE_HAVE_NCCL OFF)
if(THINWIRE_CUDA AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT THINWIRE_SANITIZE)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    find_package(CUDAToolkit)
    set(THINWIRE_HAVE_CUDA ${CUDAToolkit_FOUND})
    find_package(NCCL)
    set(THINWIRE_HAVE_NCCL ${NCCL_FOUND})
  endif()
endif()
if(THINWIRE_HAVE_CUDA)
  string(APPEND THINWIRE_PC_PRIVATE " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt -ldl")
endif()
message(STATUS "thinwire: CUDA ${THINWIRE_HAVE_CUDA}, NCCL ${THINWIRE_HAVE_NCCL}")
