/* Any MPI as a library of sampler.h. Usage: mpirun ... mpi SOCKET_NAME CORES
 *
 * A config is "TYPE OPERATION NAME=VALUE ...": control variables of the library (MPI-4, 15.3), set for this sample alone
 * and as they were before it for every other. Each config has a communicator of its own, made while its variables are
 * set, since libraries read some of them then and some with every call. "-" is float32 and sum, without variables. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler.h"

enum { MOST_COMMUNICATORS = 64, MOST_VARIABLES = 8, WORDS = 4096, VALUE = 4096 };

static const char *const kElements[] = {"float32", "float64", "int8", "uint8", "int32", "int64"};
static const char *const kReductions[] = {"sum", "max", "prod"};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static MPI_Datatype element_type;
static MPI_Op operator;
static MPI_Comm comm; /* of the config */

static void barrier(void) { MPI_Barrier(comm); }

static void all_reduce(const float *in, float *out, size_t count) {
  MPI_Allreduce(in, out, (int)count, element_type, operator, comm);
}
static void all_gather(const float *in, float *out, size_t count) {
  MPI_Allgather(in, (int)count, element_type, out, (int)count, element_type, comm);
}
static void reduce_scatter(const float *in, float *out, size_t count) {
  MPI_Reduce_scatter_block(in, out, (int)count, element_type, operator, comm);
}
static void broadcast(const float *in, float *out, size_t count) {
  (void)in;
  MPI_Bcast(out, (int)count, element_type, 0, comm);
}
static void reduce(const float *in, float *out, size_t count) {
  MPI_Reduce(in, out, (int)count, element_type, operator, 0, comm);
}
static void all_to_all(const float *in, float *out, size_t count) {
  MPI_Alltoall(in, (int)count, element_type, out, (int)count, element_type, comm);
}

struct variable {
  MPI_T_cvar_handle handle;
  size_t bytes;
  char before[VALUE];
};
static struct variable set[MOST_VARIABLES];
static int n_set;

static void put_back(void) {
  while (n_set > 0) {
    struct variable *variable = &set[--n_set];
    MPI_T_cvar_write(variable->handle, variable->before);
    MPI_T_cvar_handle_free(&variable->handle);
  }
}

/* The number of a word of a variable whose words have numbers: by its enumeration, or, where the library (MPICH) has none,
 * by the lines "word - what it means" of its description, which are in the order of the numbers. -1: there is none. */
static int number_of(const char *word, MPI_T_enum words, char *description) {
  int n = 0, value;
  char name[256];
  if (words != MPI_T_ENUM_NULL) {
    int length = sizeof name;
    MPI_T_enum_get_info(words, &n, name, &length);
    for (int i = 0; i < n; i++) {
      length = sizeof name;
      MPI_T_enum_get_item(words, i, &value, name, &length);
      if (strcmp(name, word) == 0) return value;
    }
    return -1;
  }
  for (char *line = strtok(description, "\n"); line; line = strtok(NULL, "\n"))
    if (sscanf(line, " %255s %n", name, &value) == 1 && line[value] == '-') {
      if (strcmp(name, word) == 0) return n;
      n++;
    }
  return -1;
}

/* NULL, or what is wrong. */
static const char *set_variable(const char *name, const char *text) {
  static char description[WORDS];
  int index, verbosity, binding, scope, count, name_length = 0, length = sizeof description, bytes;
  MPI_Datatype type;
  MPI_T_enum words;
  if (n_set == MOST_VARIABLES) return "too many variables";
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return "this MPI has no such control variable";
  MPI_T_cvar_get_info(index, NULL, &name_length, &verbosity, &type, &words, description, &length, &binding, &scope);
  struct variable *variable = &set[n_set];
  if (MPI_T_cvar_handle_alloc(index, NULL, &variable->handle, &count) != MPI_SUCCESS) return "no access to the variable";
  n_set++;
  MPI_Type_size(type, &bytes);
  variable->bytes = (size_t)bytes * (size_t)count;
  if (type == MPI_CHAR || variable->bytes > sizeof(int)) return "the variable is no number";
  MPI_T_cvar_read(variable->handle, variable->before);
  char *end;
  long value = strtol(text, &end, 10);
  if (*end || end == text) value = number_of(text, words, description);
  if (value < 0 || value > 0x7fffffff) return "the variable has no such value";
  /* A bool has one byte; on a machine that begins with the highest byte it would be another one of the int. */
  const unsigned char byte = (unsigned char)value;
  const int whole = (int)value;
  const int done = MPI_T_cvar_write(variable->handle, bytes == 1 ? (const void *)&byte : (const void *)&whole);
  return done == MPI_SUCCESS ? NULL : "the variable cannot be set at run time";
}

/* The communicator of these variables; the oldest makes room for one too many. All ranks are asked for the same ones. */
static const char *communicator(const char *variables) {
  static struct {
    int made;
    char variables[WORDS];
    MPI_Comm comm;
  } kept[MOST_COMMUNICATORS];
  static int next;
  for (int i = 0; i < MOST_COMMUNICATORS; i++)
    if (kept[i].made && strcmp(kept[i].variables, variables) == 0) return comm = kept[i].comm, NULL;
  if (kept[next].made) MPI_Comm_free(&kept[next].comm);
  kept[next].made = 0;
  if (MPI_Comm_dup(MPI_COMM_WORLD, &kept[next].comm) != MPI_SUCCESS) return "no communicator";
  kept[next].made = 1;
  snprintf(kept[next].variables, WORDS, "%s", variables);
  comm = kept[next].comm;
  next = (next + 1) % MOST_COMMUNICATORS;
  return NULL;
}

static int index_of(const char *word, const char *const *words, int n) {
  int i = 0;
  while (i < n && (!word || strcmp(words[i], word) != 0)) i++;
  return i;
}

static struct library library;

static const char *configure(const char *config, enum collective collective, size_t count) {
  static char words[WORDS], wrong[WORDS];
  (void)collective;
  put_back();
  if (count > 0x7fffffff) return "more elements than an MPI call counts";
  if (strcmp(config, "-") == 0) config = "float32 sum";
  snprintf(words, sizeof words, "%s", config);
  char *at = NULL;
  library.element = (enum element)index_of(strtok_r(words, " ", &at), kElements, COUNT(kElements));
  library.reduction = (enum reduction)index_of(strtok_r(NULL, " ", &at), kReductions, COUNT(kReductions));
  if ((int)library.element == COUNT(kElements) || (int)library.reduction == COUNT(kReductions))
    return "the config does not begin with a type and an operation";
  const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT8_T, MPI_UINT8_T, MPI_INT32_T, MPI_INT64_T};
  const MPI_Op operators[] = {MPI_SUM, MPI_MAX, MPI_PROD};
  element_type = types[library.element], operator= operators[library.reduction];
  const char *const variables = config + (at - words);
  for (char *word; (word = strtok_r(NULL, " ", &at));) {
    char *const value = strchr(word, '=');
    if (!value) return "not NAME=VALUE";
    *value = 0;
    const char *const what = set_variable(word, value + 1);
    if (what) return snprintf(wrong, sizeof wrong, "%.200s=%.200s: %s", word, value + 1, what), wrong;
  }
  return communicator(variables);
}

int main(int argc, char **argv) {
  static char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length, provided;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Init(&argc, &argv);
  library = (struct library){.barrier = barrier,
                             .run = {all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all},
                             .configure = configure};
  MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &library.ranks);
  MPI_Get_library_version(version, &length);
  version[strcspn(version, "\n,")] = 0;
  for (char *c = version; *c; c++)
    if (*c == '\t') *c = ' ';
  library.version = version;
  const int code = argc == 3 ? serve(&library, argv[1], argv[2]) : 2;
  put_back();
  MPI_Finalize();
  MPI_T_finalize();
  return code;
}
