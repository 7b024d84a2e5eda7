# Header, libraries, pkg-config file and CMake package; the program where it is built.
include(CMakePackageConfigHelpers)

set_target_properties(ticketing PROPERTIES EXPORT_NAME ticketing)
set_target_properties(ticketing_static PROPERTIES EXPORT_NAME static)
install(FILES abi/include/ticketing.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The header names rules by letter and number.
install(FILES core/RULES.md abi/STABILITY.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS ticketing ticketing_static EXPORT ticketing-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET ticketing_program)
  install(TARGETS ticketing_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(ticketing_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ticketing)
install(EXPORT ticketing-targets NAMESPACE ticketing:: DESTINATION ${ticketing_package_dir})
configure_package_config_file(packaging/cmake/ticketing-config.cmake.in
  ${CMAKE_BINARY_DIR}/ticketing-config.cmake INSTALL_DESTINATION ${ticketing_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ticketing-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ticketing-config.cmake
              ${CMAKE_BINARY_DIR}/ticketing-config-version.cmake
        DESTINATION ${ticketing_package_dir})

# Relative to ${prefix}, so that pkg-config --define-prefix works, unless the folders were given
# absolute.
foreach(which LIBDIR INCLUDEDIR)
  string(TOLOWER ${which} lower)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${which}})
    set(ticketing_pc_${lower} ${CMAKE_INSTALL_${which}})
  else()
    set(ticketing_pc_${lower} "\${prefix}/${CMAKE_INSTALL_${which}}")
  endif()
endforeach()
# At install time, for `cmake --install --prefix` may name another place than the configuration.
install(CODE "
  set(PROJECT_VERSION ${PROJECT_VERSION})
  set(ticketing_pc_libdir [[${ticketing_pc_libdir}]])
  set(ticketing_pc_includedir [[${ticketing_pc_includedir}]])
  configure_file(${CMAKE_SOURCE_DIR}/packaging/pkgconfig/libticketing.pc.in
                 ${CMAKE_BINARY_DIR}/libticketing.pc @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/libticketing.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
