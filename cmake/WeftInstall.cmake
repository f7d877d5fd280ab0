include(CMakePackageConfigHelpers)

install(TARGETS weft EXPORT weftTargets FILE_SET HEADERS)
if(WEFT_TOOL)
  # The tool finds a shared libweft relative to itself, and the CUDA toolkit where it was linked from.
  file(RELATIVE_PATH to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  if(APPLE)
    set(origin "@loader_path")
  else()
    set(origin "$ORIGIN")
  endif()
  set_target_properties(weft_tool PROPERTIES INSTALL_RPATH "${origin}/${to_lib}" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS weft_tool)
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${package})
configure_package_config_file(cmake/weftConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/weftConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weftConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake DESTINATION ${package})

# The installed folder may be moved: all paths are relative to weft.pc.
file(RELATIVE_PATH WEFT_PC_UP /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" WEFT_PC_UP "${WEFT_PC_UP}")
if(CMAKE_DL_LIBS AND (WEFT_HAS_MPI OR WEFT_HAS_NCCL))
  set(WEFT_DL_LIBS " -l${CMAKE_DL_LIBS}")  # MPI and NCCL are loaded, not linked
endif()
configure_file(cmake/weft.pc.in ${CMAKE_CURRENT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Documents keep their relative paths, so that their links work.
if(PROJECT_IS_TOP_LEVEL)
  install(FILES README.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    PATTERN CMakeLists.txt EXCLUDE PATTERN *.cmake EXCLUDE)
endif()
