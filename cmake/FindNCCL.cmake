# NCCL ships no CMake package. Defines the target NCCL::nccl and NCCL_VERSION.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
if(NCCL_INCLUDE_DIR)
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h line REGEX "^#define NCCL_${part} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX REPLACE "[^0-9]*([0-9]+).*" "\\1" NCCL_${part} "${line}")
  endforeach()
  set(NCCL_VERSION ${NCCL_MAJOR}.${NCCL_MINOR}.${NCCL_PATCH})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR
                                  VERSION_VAR NCCL_VERSION)
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
endif()
