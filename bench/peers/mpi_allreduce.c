// Sums of 8 micro-batches' gradients over 1, 2, 4 and 8 ranks: MPI's own reduction beside an all-to-all with a tree over the ranks and an
// all-gather. Prints a checksum of the bits of each sum and the median time (docs/lab/distributed.md).
//
//   mpicc -O2 bench/peers/mpi_allreduce.c -o /tmp/mpi_allreduce && for n in 1 2 4 8; do mpirun --oversubscribe -n $n /tmp/mpi_allreduce;
//   done
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMicroBatches = 8, kElements = 1 << 22, kTimes = 9 };

static float value(uint32_t i) {  // uneven magnitudes, as gradients have
  i = (i ^ (i >> 16)) * 0x45d9f3bu;
  i = (i ^ (i >> 16)) * 0x45d9f3bu;
  i ^= i >> 16;
  return ((int32_t)i / 2147483648.0f) / (float)(1u << (i % 12));
}

// Additions of the tree over `count` vectors, `stride` apart; the sum is in the first.
static void tree(float* x, int count, size_t stride, size_t n) {
  for (int w = 1; w < count; w *= 2)
    for (int r = 0; r + w < count; r += 2 * w)
      for (size_t i = 0; i < n; ++i) x[r * stride + i] += x[(r + w) * stride + i];
}

static uint64_t checksum(const float* x) {
  uint64_t sum = 1469598103934665603u;
  for (size_t i = 0; i < kElements; ++i) {
    uint32_t bits;
    memcpy(&bits, &x[i], 4);
    sum = (sum ^ bits) * 1099511628211u;
  }
  return sum;
}

static int ascending(const void* a, const void* b) {
  return (*(const double*)a > *(const double*)b) - (*(const double*)a < *(const double*)b);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int own = kMicroBatches / ranks;
  const size_t part = kElements / (size_t)ranks;
  float* gradients = malloc(sizeof(float) * kElements * (size_t)own);
  float *received = malloc(sizeof(float) * kElements), *sum = malloc(sizeof(float) * kElements);
  for (int m = 0; m < own; ++m)
    for (size_t i = 0; i < kElements; ++i)
      gradients[m * (size_t)kElements + i] = value((uint32_t)((rank * own + m) * (size_t)kElements + i));
  tree(gradients, own, kElements, kElements);

  double engine[kTimes], ours[kTimes];
  uint64_t bits[2];
  for (int t = 0; t < kTimes; ++t) {
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    MPI_Allreduce(gradients, sum, kElements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    engine[t] = MPI_Wtime() - start;
    if (t == 0) bits[0] = checksum(sum);
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    MPI_Alltoall(gradients, (int)part, MPI_FLOAT, received, (int)part, MPI_FLOAT, MPI_COMM_WORLD);
    tree(received, ranks, part, part);
    MPI_Allgather(received, (int)part, MPI_FLOAT, sum, (int)part, MPI_FLOAT, MPI_COMM_WORLD);
    ours[t] = MPI_Wtime() - start;
    if (t == 0) bits[1] = checksum(sum);
  }
  qsort(engine, kTimes, sizeof(double), ascending);
  qsort(ours, kTimes, sizeof(double), ascending);
  if (rank == 0)
    printf("%d ranks: MPI_Allreduce %016llx %.1f ms; all-to-all, tree, all-gather %016llx %.1f ms\n", ranks, (unsigned long long)bits[0],
           1e3 * engine[kTimes / 2], (unsigned long long)bits[1], 1e3 * ours[kTimes / 2]);
  MPI_Finalize();
  return 0;
}
