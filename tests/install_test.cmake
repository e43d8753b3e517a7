# Installs BUILD_DIR into an empty prefix, moves it, and builds and runs tests/outside from there: with
# find_package, then with pkg-config. Every installed header must compile alone, without the tree.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK_DIR} RESULT_VARIABLE status
                  OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${CONFIG} --prefix ${WORK_DIR}/made)
file(RENAME ${WORK_DIR}/made ${WORK_DIR}/prefix)
set(prefix ${WORK_DIR}/prefix)

run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${OUTSIDE_DIR} -B ${WORK_DIR}/build -D CMAKE_PREFIX_PATH=${prefix}
    -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/outside)
message("by find_package:\n${output}")

file(GLOB_RECURSE pc ${prefix}/thinwire.pc)
get_filename_component(pc_dir ${pc} DIRECTORY)
get_filename_component(lib_dir ${pc_dir} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
set(static "")
if(STATIC)
  set(static --static)
endif()
run(pkg-config --cflags --libs ${static} thinwire)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${CXX} -std=c++20 ${OUTSIDE_DIR}/main.cc -o ${WORK_DIR}/by_pkg_config ${flags})
set(ENV{LD_LIBRARY_PATH} ${lib_dir})
run(${WORK_DIR}/by_pkg_config)
message("by pkg-config:\n${output}")

# One translation unit: a header that leaned on an earlier one still fails in tests/headers.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include ${prefix}/include/*.h)
set(lines "")
foreach(header ${headers})
  string(APPEND lines "#include <${header}>\n")
endforeach()
file(WRITE ${WORK_DIR}/all_headers.cc "${lines}")
run(${CXX} -std=c++20 -fsyntax-only -I ${prefix}/include ${WORK_DIR}/all_headers.cc)
run(${prefix}/bin/thinwire --version)
