# Writes kernel_files() (weft/tile/metal/source.h): FILES and their includes from the tree, as string constants.
cmake_minimum_required(VERSION 3.25)
set(todo ${FILES})
set(done "")
set(table "")
while(todo)
  list(POP_FRONT todo file)
  if(file IN_LIST done)
    continue()
  endif()
  list(APPEND done ${file})
  file(READ ${ROOT}/${file} text)
  string(REGEX MATCHALL "#include \"[^\"]+\"" includes "${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "#include \"([^\"]+)\"" "\\1" include "${include}")
    list(APPEND todo ${include})
  endforeach()
  if(file MATCHES "\\.metal$")
    set(kernels true)
  else()
    set(kernels false)
  endif()
  string(APPEND table "    {\"${file}\", R\"weft_kernel(${text})weft_kernel\", ${kernels}},\n")
endwhile()
list(TRANSFORM done PREPEND "${ROOT}/" OUTPUT_VARIABLE paths)
list(JOIN paths " " paths)
file(WRITE ${DEPFILE} "${OUTPUT}: ${paths}\n")
file(WRITE ${OUTPUT} "// Written by cmake/embed_kernels.cmake.
#include \"weft/tile/metal/source.h\"

namespace weft::metal {

std::span<const KernelFile> kernel_files() {
  static constexpr KernelFile kFiles[] = {
${table}  };
  return kFiles;
}

}  // namespace weft::metal
")
