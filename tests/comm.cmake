# Several processes: a program that a script runs under mpirun.
weft_unit_test(launch_test)
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  return()  # /proc, seccomp
endif()
add_executable(ranks comm/ranks.cpp comm/moves.cpp)
weft_target_defaults(ranks)
target_link_libraries(ranks PRIVATE weft)
target_include_directories(ranks PRIVATE ${PROJECT_SOURCE_DIR})
add_test(NAME mpi.ranks COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/comm/ranks.py $<TARGET_FILE:ranks> ${WEFT_HAS_MPI} "${WEFT_SANITIZE}")
set_tests_properties(mpi.ranks PROPERTIES LABELS "mpi" SKIP_RETURN_CODE 77 PROCESSORS 2 TIMEOUT 300)
