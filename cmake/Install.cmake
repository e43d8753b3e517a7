# find_package(thinwire) and pkg-config thinwire.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS thinwire EXPORT thinwireTargets)
install(TARGETS thinwire_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/thinwire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(room optimizers transports models)
  install(DIRECTORY ${room}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/thinwire/${room}
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT thinwireTargets NAMESPACE thinwire::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/thinwire)
configure_package_config_file(cmake/thinwireConfig.cmake.in thinwireConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/thinwire)
write_basic_package_version_file(thinwireConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/thinwireConfig.cmake
              ${PROJECT_BINARY_DIR}/thinwireConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/thinwire)
configure_file(cmake/thinwire.pc.in thinwire.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/thinwire.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
