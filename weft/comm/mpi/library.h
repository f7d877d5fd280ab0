// MPI's library, loaded at run time. Only the header of the implementation is needed to build; a program that uses Weft does not link
// MPI, and starts where there is none.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

namespace weft::mpi {

// The functions that we call, by their names without MPI_.
struct Library {
  decltype(&MPI_Abort) Abort;
  decltype(&MPI_Comm_dup) Comm_dup;
  decltype(&MPI_Comm_rank) Comm_rank;
  decltype(&MPI_Comm_set_errhandler) Comm_set_errhandler;
  decltype(&MPI_Comm_size) Comm_size;
  decltype(&MPI_Error_class) Error_class;
  decltype(&MPI_Error_string) Error_string;
  decltype(&MPI_Finalize) Finalize;
  decltype(&MPI_Get_count) Get_count;
  decltype(&MPI_Get_library_version) Get_library_version;
  decltype(&MPI_Init_thread) Init_thread;
  decltype(&MPI_Initialized) Initialized;
  decltype(&MPI_Iprobe) Iprobe;
  decltype(&MPI_Irecv) Irecv;
  decltype(&MPI_Isend) Isend;
  decltype(&MPI_Recv) Recv;
  decltype(&MPI_Testsome) Testsome;

  // Handles. Those of Open MPI are addresses of variables of the library, those of MPICH are constants.
  MPI_Comm comm_world;
  MPI_Datatype byte;
  MPI_Errhandler errors_return;
  MPI_Request request_null;
};

// Loads the library once. Throws `unsupported`, naming the files that were tried, if it cannot be loaded.
const Library& library();

// "Open MPI 4.1.4". Needs no MPI_Init.
std::string version();

}  // namespace weft::mpi
