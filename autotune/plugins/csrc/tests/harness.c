/* A host of tuner plugins: loads one as HCCL or NCCL does and asks for decisions.
 *
 *   plugin_harness ask     LIBRARY FOLDER   every case of the folder (tests/plugins/write_cases.py), each in a process
 *   plugin_harness threads LIBRARY FOLDER   communicators made by some threads while others ask
 *   plugin_harness time    LIBRARY TABLE    nanoseconds of a decision; no limit is judged here
 *
 * A case is a table NAME.json, and NAME.asked, one call a line with the answer that is due:
 *   hccl RANKS SERVERS CALL TYPE BYTES ENGINE EXECUTOR TEMPLATE    (or - - - for none)
 *   nccl RANKS NODES FUNCTION BYTES ALGORITHM PROTOCOL CHANNELS    (ALGORITHM -1: none; PROTOCOL -1: NCCL's choice) */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi_hccl.h"
#include "abi_nccl.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define REQUIRE(condition, ...)                                                              \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "%s:%d: %s failed: ", __FILE__, __LINE__, #condition);                 \
      fprintf(stderr, __VA_ARGS__);                                                          \
      fputc('\n', stderr);                                                                   \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

enum { ENTRIES = 28, CELLS = kNcclAlgorithms * kNcclProtocols, WORD = 40, LINE = 256 };
static const float kUntouched = 5.0f, kIgnored = -1.0f;
static const char *const kEngines[] = {"aicpu", "aiv"}, *const kExecutors[] = {"sole", "parallel"};
static const char *const kTemplates[] = {"mesh",      "mesh2die",         "meshoneshot", "meshtwoshot",
                                         "meshchunk", "meshchunktwoshot", "nhr"};

static HcclTunerFunctionsV1 *hccl;
static const NcclTunerV5 *nccl;

/* How often this thread has allocated: a decision must not. Volatile, since compilers take it that malloc writes to nothing
   that they can see. */
static _Thread_local volatile long allocations;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *at, size_t bytes) { (void)at, (void)bytes, allocations++; }
static void on_free(const volatile void *at) { (void)at; }
static void count_allocations(void) { __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free); }
#else
extern void *__libc_malloc(size_t bytes);
void *malloc(size_t bytes) {
  allocations++;
  return __libc_malloc(bytes);
}
static void count_allocations(void) {}
#endif

static void load(const char *library) {
  void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle, "%s", dlerror());
  hccl = (HcclTunerFunctionsV1 *)dlsym(handle, "hcclTunerPlugin_v1");
  nccl = (const NcclTunerV5 *)dlsym(handle, "ncclTunerPlugin_v5");
  REQUIRE(hccl || nccl, "%s exports neither table of functions", library);
}

static void fill(HcclTunerAlgoEntry *entries) {
  int n = 0;
  for (size_t e = 0; e < COUNT(kEngines); e++)
    for (size_t x = 0; x < COUNT(kExecutors); x++)
      for (size_t t = 0; t < COUNT(kTemplates); t++)
        entries[n++] = (HcclTunerAlgoEntry){"Name",     kEngines[e], kExecutors[x], kTemplates[t],
                                            kUntouched, sizeof(HcclTunerAlgoEntry)};
}

static void *announced(unsigned ranks, unsigned servers, void *comm) {
  const HcclTunerCommInfo info = {.nRanks = ranks, .nServers = servers, .nNpusPerServer = 8, .structSize = sizeof info};
  const HcclTunerHostFunctions host = {.structSize = sizeof host};
  REQUIRE(hccl->init(comm, &info, &host) == kHcclSuccess, "init");
  return comm;
}

static int asked_hccl(void *comm, int call, int type, size_t bytes, HcclTunerAlgoEntry *entries) {
  const HcclTunerCollInfo info = {call, bytes, type, sizeof info};
  const long before = allocations;
  int matched = 0;
  REQUIRE(hccl->getCollInfo(comm, &info, entries, ENTRIES, &matched) == kHcclSuccess, "getCollInfo");
  REQUIRE(allocations == before, "a decision allocated");
  return matched;
}

static void asked_nccl(void *context, int function, size_t bytes, float *costs, int *channels) {
  const long before = allocations;
  REQUIRE(nccl->getCollInfo(context, function, bytes, 1, (float **)costs, kNcclAlgorithms, kNcclProtocols, 0, channels) ==
              kNcclSuccess,
          "getCollInfo");
  REQUIRE(allocations == before, "a decision allocated");
}

static void case_hccl(const char *line) {
  unsigned ranks, servers;
  int call, type;
  size_t bytes;
  char engine[WORD], executor[WORD], template[WORD];
  if (sscanf(line, "hccl %u %u %d %d %zu %39s %39s %39s", &ranks, &servers, &call, &type, &bytes, engine, executor,
             template) != 8)
    return;
  HcclTunerAlgoEntry entries[ENTRIES];
  fill(entries);
  void *const comm = announced(ranks, servers, (void *)(uintptr_t)(16 * (1 + ranks * 64 + servers)));
  const int matched = asked_hccl(comm, call, type, bytes, entries);
  int due = 0;
  for (int i = 0; i < ENTRIES; i++) {
    const int chosen = !strcmp(entries[i].engineName, engine) && !strcmp(entries[i].executorName, executor) &&
                       !strcmp(entries[i].templateName, template);
    due |= chosen;
    REQUIRE(entries[i].cost == (chosen ? 0.0f : kUntouched), "%s: entry %d costs %g", line, i, (double)entries[i].cost);
  }
  REQUIRE(matched == due, "%s: matched %d", line, matched);
}

static void case_nccl(const char *line) {
  size_t ranks, nodes, bytes;
  int function, algorithm, protocol, channels, got = 0;
  if (sscanf(line, "nccl %zu %zu %d %zu %d %d %d", &ranks, &nodes, &function, &bytes, &algorithm, &protocol, &channels) != 7)
    return;
  float costs[CELLS];
  for (int i = 0; i < CELLS; i++) costs[i] = kUntouched;
  void *context = NULL;
  REQUIRE(nccl->init(&context, 7, ranks, nodes, NULL, NULL, NULL) == kNcclSuccess, "init");
  asked_nccl(context, function, bytes, costs, &got);
  REQUIRE(nccl->finalize(context) == kNcclSuccess, "finalize");
  for (int i = 0; i < CELLS; i++) {
    const int own = i / kNcclProtocols == algorithm, cell = own && i % kNcclProtocols == protocol;
    const float due = cell ? 0.0f : algorithm >= 0 && protocol < 0 && !own ? kIgnored : kUntouched;
    REQUIRE(costs[i] == due, "%s: cell %d costs %g", line, i, (double)costs[i]);
  }
  REQUIRE(got == channels, "%s: %d channels", line, got);
}

/* Each case in a process of its own: a plugin reads its table once. Returns how many calls were asked. */
static int run_case(const char *library, const char *folder, const char *name) {
  char path[LINE], line[LINE];
  snprintf(path, sizeof path, "%s/%s.json", folder, name);
  setenv("AUTOTUNE_TABLE", path, 1);
  setenv("AUTOTUNE_FINGERPRINT", "any", 1);
  load(library);
  snprintf(path, sizeof path, "%s/%s.asked", folder, name);
  FILE *const file = fopen(path, "r");
  REQUIRE(file, "%s", path);
  int asked = 0;
  for (; fgets(line, sizeof line, file); asked++) (hccl ? case_hccl : case_nccl)(line);
  fclose(file);
  return asked;
}

static int ask(const char *library, const char *folder) {
  DIR *const entries = opendir(folder);
  REQUIRE(entries, "%s", folder);
  int cases = 0;
  for (struct dirent *entry; (entry = readdir(entries));) {
    char *const end = strrchr(entry->d_name, '.');
    if (!end || strcmp(end, ".asked") != 0) continue;
    *end = 0;
    const pid_t child = fork();
    REQUIRE(child >= 0, "fork");
    if (child == 0) exit(run_case(library, folder, entry->d_name) > 0 ? 0 : 1);
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0, "%s ended with %d", entry->d_name, status);
    cases++;
  }
  closedir(entries);
  REQUIRE(cases > 0, "no cases in %s", folder);
  printf("%d cases\n", cases);
  return 0;
}

enum { THREADS = 4, TURNS = 2000 };

static void *turn(void *argument) {
  const size_t number = (size_t)argument;
  HcclTunerAlgoEntry entries[ENTRIES];
  fill(entries);
  for (size_t i = 0; i < TURNS; i++) {
    void *const comm = (void *)(16 * (1 + (i + number) % 64));
    if (hccl) {
      if (number % 2) announced(1 + (unsigned)(i % 8), 1, comm);
      else asked_hccl(comm, kHcclAllReduce, 4, i, entries);
      continue;
    }
    float costs[CELLS] = {0};
    void *context = NULL;
    int channels = 0;
    REQUIRE(nccl->init(&context, 7, 1 + i % 8, 1, NULL, NULL, NULL) == kNcclSuccess, "init");
    asked_nccl(context, kNcclAllReduce, i, costs, &channels);
    nccl->finalize(context);
  }
  return NULL;
}

static int threads(const char *library, const char *folder) {
  char path[LINE];
  snprintf(path, sizeof path, "%s/0.json", folder);
  setenv("AUTOTUNE_TABLE", path, 1);
  load(library);
  pthread_t running[THREADS];
  for (size_t i = 0; i < THREADS; i++) REQUIRE(pthread_create(&running[i], NULL, turn, (void *)i) == 0, "thread");
  for (size_t i = 0; i < THREADS; i++) pthread_join(running[i], NULL);
  return 0;
}

/* Of this thread's processor time: a decision waits for nothing, and other load is not its own. */
static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* 8 ranks on one host; sizes all over the table, so that no branch is learnt. The costs stay as they are after the first
 * decision of each size, which changes nothing in the work. */
static int time_decisions(const char *library, const char *table) {
  enum { SIZES = 1021, CALLS = 1000000 };
  static size_t sizes[SIZES];
  setenv("AUTOTUNE_TABLE", table, 1);
  setenv("AUTOTUNE_FINGERPRINT", "any", 1);
  load(library);
  for (size_t i = 0; i < SIZES; i++) sizes[i] = (size_t)(rand() % 1000 + 1) << (rand() % 20);
  HcclTunerAlgoEntry entries[ENTRIES];
  fill(entries);
  void *comm = (void *)16, *context = NULL;
  if (hccl) announced(8, 1, comm);
  else nccl->init(&context, 7, 8, 1, NULL, NULL, NULL);
  float costs[CELLS] = {0};
  int decided = 0;
  for (int turn = 0; turn < 9; turn++) {
    const double start = now_ns();
    for (size_t i = 0; i < CALLS; i++) {
      const size_t bytes = sizes[i % SIZES];
      if (hccl) {
        decided += asked_hccl(comm, kHcclAllReduce, 4, bytes, entries);
      } else {
        int channels = 0;
        asked_nccl(context, kNcclAllReduce, bytes, costs, &channels);
        decided += channels > 0;
      }
    }
    printf("%.1f ns a decision\n", (now_ns() - start) / CALLS);
  }
  printf("%d of %d calls decided by the table\n", decided, 9 * CALLS);
  return 0;
}

int main(int argc, char **argv) {
  count_allocations();
  const long before = allocations;
  void *volatile block = malloc(1);
  free(block);
  REQUIRE(allocations == before + 1, "allocations are not counted");
  if (argc == 4 && strcmp(argv[1], "ask") == 0) return ask(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "threads") == 0) return threads(argv[2], argv[3]);
  if (argc == 4 && strcmp(argv[1], "time") == 0) return time_decisions(argv[2], argv[3]);
  fprintf(stderr, "usage: plugin_harness ask|threads LIBRARY FOLDER, or time LIBRARY TABLE\n");
  return 2;
}
