# What a user outside the tree gets: find_package(thinwire) and pkg-config thinwire, for a static or a
# shared library. Every installed header lies under thinwire/: "optimizers/catalog.h" of the tree is
# "thinwire/optimizers/catalog.h" there, also where the headers include each other, since a bare
# include/error.h would hide the system's. A build with CUDA
# passes on the static CUDA runtime; NCCL and cuBLASLt are loaded by who asks for them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(THINWIRE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/thinwire)
set(THINWIRE_ROOMS optimizers transports models)

install(TARGETS thinwire thinwire_app EXPORT thinwireTargets)
install(TARGETS thinwire_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
file(RELATIVE_PATH from_bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(thinwire_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin_to_lib}")

install(DIRECTORY include/thinwire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(room ${THINWIRE_ROOMS})
  install(DIRECTORY ${room}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/thinwire/${room}
          FILES_MATCHING PATTERN "*.h" PATTERN "*_internal.h" EXCLUDE)
endforeach()
string(REPLACE ";" "|" rooms "${THINWIRE_ROOMS}")
install(CODE "
  set(include \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/thinwire\")
  file(GLOB headers \"\${include}/*/*.h\")
  foreach(header \${headers})
    file(READ \"\${header}\" text)
    string(REGEX REPLACE \"#include \\\"(${rooms})/\" \"#include \\\"thinwire/\\\\1/\" text \"\${text}\")
    file(WRITE \"\${header}\" \"\${text}\")
  endforeach()")

install(EXPORT thinwireTargets NAMESPACE thinwire:: DESTINATION ${THINWIRE_CMAKE_DIR})
configure_package_config_file(cmake/thinwireConfig.cmake.in thinwireConfig.cmake
                              INSTALL_DESTINATION ${THINWIRE_CMAKE_DIR})
write_basic_package_version_file(thinwireConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/thinwireConfig.cmake
              ${PROJECT_BINARY_DIR}/thinwireConfigVersion.cmake
        DESTINATION ${THINWIRE_CMAKE_DIR})

# The prefix is found from the file's own place, so that the installed tree can be moved.
file(RELATIVE_PATH THINWIRE_PC_UP /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/thinwire.pc.in thinwire.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/thinwire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
