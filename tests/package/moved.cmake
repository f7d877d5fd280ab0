function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Installs a build into a folder below `work` and moves it; `result` is its final path.
function(install_and_move build work result)
  file(REMOVE_RECURSE ${work})
  run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/installed)
  file(MAKE_DIRECTORY ${work}/moved)
  file(RENAME ${work}/installed ${work}/moved/prefix)
  set(${result} ${work}/moved/prefix PARENT_SCOPE)
endfunction()
