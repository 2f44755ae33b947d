/* What this machine does, measured without any of boundby: multiply-adds on registers, and streams over float vectors.
 *
 * A program with its own loops, its own threads and its own clock. It reads one question a line,
 *
 *     loops MEMORY_FILE
 *     NAME BYTES THREADS STRETCHES MILLISECONDS
 *
 * and answers with FLOP/s (fma32, fma64) or bytes/s (read, write, copy, inplace, triad, and write_nt, copy_nt, triad_nt
 * with stores that go past the caches), counted as STREAM does: what the loop reads and writes, once. STRETCHES parts
 * of each vector are gone through side by side. It is built once for each width of registers, -DWIDTH=16, 32, 64.
 *
 * Every thread waits for all others before and after each sample, spinning. Sets over 16 MiB (or 16 MiB for each two
 * threads) are gone through piece by piece, a sample each, round and round. Of the samples the answer takes the time
 * that 15% of them stay below.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <fcntl.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef float pack __attribute__((vector_size(WIDTH)));
typedef double pack64 __attribute__((vector_size(WIDTH)));

#define PIECE (16L << 20)
#define LARGEST (256L << 20)
#define MOST_THREADS 256
/* Between the parts of two threads, and what that comes to at the most. */
#define APART 8192L
#define SLACK (3 * APART * MOST_THREADS + (1L << 20))
#define MOST_SAMPLES 100000
#define LANES ((long)(WIDTH / sizeof(float)))
#if WIDTH == 64
#define CHAINS 16
#else
#define CHAINS 12
#endif

#if defined(__x86_64__) && WIDTH == 64
#define PAST(p, v) _mm512_stream_ps((float *)(p), (__m512)(v))
#elif defined(__x86_64__) && WIDTH == 32
#define PAST(p, v) _mm256_stream_ps((float *)(p), (__m256)(v))
#elif defined(__x86_64__)
#define PAST(p, v) _mm_stream_ps((float *)(p), (__m128)(v))
#endif
#define PUT(p, v) (*(p) = (v))

/* Each thread its own: a short pass of one thread would wait for the line that another one's has just written. */
static __thread volatile double sink;
/* Not known to the compiler, which would leave out a multiplication by one. */
static volatile float factor = 1;

#define CHAIN_LOOP(NAME, TYPE)                                                                    \
    static void NAME(long turns) {                                                                \
        TYPE acc[CHAINS], m, c;                                                                   \
        for (unsigned l = 0; l < sizeof(TYPE) / sizeof(acc[0][0]); l++)                           \
            m[l] = 0.97 - 0.003 * l, c[l] = 0.05 + 0.01 * l;                                      \
        for (int k = 0; k < CHAINS; k++) acc[k] = c * (float)(1 + k);                             \
        while (turns--)                                                                           \
            for (int k = 0; k < CHAINS; k++) acc[k] = acc[k] * m + c;                             \
        for (int k = 1; k < CHAINS; k++) acc[0] += acc[k];                                        \
        sink = acc[0][0];                                                                         \
    }
CHAIN_LOOP(chains32, pack)
CHAIN_LOOP(chains64, pack64)

/* Passes with OP(j, sum) on 8 packs a turn where there is one stretch, else on 4 packs of each of S stretches. A function
 * for each S: with all in one, the compiler would put the sums down after each pass, which shows in short ones. */
#define PASS_OF(NAME, S, OP)                                                                      \
    static void NAME##_##S(pack *a, pack *b, pack *c, long n, long repeats) {                     \
        enum { EACH = S == 1 ? 8 : 4 };                                                           \
        pack sum[8] = {{0}}, one;                                                                 \
        (void)b, (void)c;                                                                         \
        for (int l = 0; l < LANES; l++) one[l] = factor;                                          \
        long length = n / S / EACH * EACH;                                                        \
        while (repeats--) {                                                                       \
            for (long i = 0; i < length; i += EACH)                                               \
                for (int s = 0; s < S; s++)                                                       \
                    for (int p = 0; p < EACH; p++) { OP(i + s * length + p, (EACH * s + p) % 8) } \
            for (long j = S * length; j < n; j++) { OP(j, 0) }                                    \
            __asm__ volatile("" ::: "memory");                                                    \
        }                                                                                         \
        sum[0] += sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];                   \
        sink = sum[0][0] + one[0];                                                                \
    }
#define PASS(NAME, OP) PASS_OF(NAME, 1, OP) PASS_OF(NAME, 2, OP) PASS_OF(NAME, 4, OP)

#define READ(j, k) sum[k] += a[j];
#define WRITE(j, k) PUT(a + (j), one);
#define COPY(j, k) PUT(b + (j), a[j]);
#define INPLACE(j, k) PUT(a + (j), a[j] * one);
#define TRIAD(j, k) PUT(c + (j), a[j] + one * b[j]);
PASS(pass_read, READ)
PASS(pass_write, WRITE)
PASS(pass_copy, COPY)
PASS(pass_inplace, INPLACE)
PASS(pass_triad, TRIAD)
#ifdef PAST
#define WRITE_PAST(j, k) PAST(a + (j), one);
#define COPY_PAST(j, k) PAST(b + (j), a[j]);
#define TRIAD_PAST(j, k) PAST(c + (j), a[j] + one * b[j]);
PASS(pass_write_nt, WRITE_PAST)
PASS(pass_copy_nt, COPY_PAST)
PASS(pass_triad_nt, TRIAD_PAST)
#endif

typedef void (*pass_function)(pack *, pack *, pack *, long, long);
#define PASSES(NAME) {NAME##_1, NAME##_2, NAME##_4}
static const struct kind { const char *name; pass_function passes[3]; int vectors, counted; } kinds[] = {
    {"read", PASSES(pass_read), 1, 1}, {"write", PASSES(pass_write), 1, 1}, {"copy", PASSES(pass_copy), 2, 2},
    {"inplace", PASSES(pass_inplace), 1, 2}, {"triad", PASSES(pass_triad), 3, 3},
#ifdef PAST
    {"write_nt", PASSES(pass_write_nt), 1, 1}, {"copy_nt", PASSES(pass_copy_nt), 2, 2},
    {"triad_nt", PASSES(pass_triad_nt), 3, 3},
#endif
};

/* What all threads are asked to do; written by the first one while the others wait. */
static struct {
    int threads, stretches, stop;
    int chains;
    const struct kind *kind;
    char *memory;
    long bytes, pieces, piece, repeats;
} now;

static atomic_int waiting, round_number;

static void meet(void) {
    int mine = atomic_load(&round_number);
    if (atomic_fetch_add(&waiting, 1) == now.threads - 1) {
        atomic_store(&waiting, 0);
        atomic_store(&round_number, mine + 1);
    } else {
        /* A thread that waits long, waits for one that has no core: it may be on this one. */
        for (long spins = 0; atomic_load(&round_number) == mine; spins++)
            if (spins > 1 << 14) sched_yield();
    }
}

/* Packs of each vector that one thread does of one piece. */
static long share(void) { return now.bytes / now.kind->vectors / now.pieces / now.threads / 64 * 64 / WIDTH; }

static void work(long thread) {
    if (now.chains == 32) { chains32(now.repeats); return; }
    if (now.chains == 64) { chains64(now.repeats); return; }
    /* The prefetchers of one core would go on into what another one is writing. */
    long packs = share(), apart = now.pieces == 1 ? APART / WIDTH : 0;
    long vector = packs * now.pieces * now.threads + apart * now.threads + 1088 / WIDTH;
    pack *a = (pack *)now.memory + (now.piece * now.threads + thread) * packs + thread * apart;
    now.kind->passes[now.stretches / 2](a, a + vector, a + 2 * vector, packs, now.repeats);
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

static void *other(void *number) {
    for (;;) {
        meet();
        if (now.stop) return NULL;
        work((long)number);
        meet();
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double sampled(void) {
    meet();
    double begin = seconds();
    work(0);
    meet();
    double end = seconds();
    now.piece = (now.piece + 1) % now.pieces;
    return end - begin;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double answer(double milliseconds) {
    static double taken[MOST_SAMPLES];
    pthread_t others[MOST_THREADS];
    now.stop = 0, now.repeats = 1, now.piece = 0;
    for (long t = 1; t < now.threads; t++) pthread_create(&others[t], NULL, other, (void *)t);
    for (long p = 0; p < now.pieces; p++) sampled();
    /* The shortest of three, or a sample that waited for a late thread would pass for a long one. */
    for (;;) {
        double shortest = sampled();
        for (int again = 0; again < 2; again++) {
            double next = sampled();
            if (next < shortest) shortest = next;
        }
        if (shortest >= 2e-4) break;
        now.repeats *= 2;
    }
    int count = 0;
    for (double end = seconds() + 1e-3 * milliseconds; count < MOST_SAMPLES && (count < 3 || seconds() < end); count++)
        taken[count] = sampled();
    now.stop = 1;
    if (now.threads > 1) meet();
    for (int t = 1; t < now.threads; t++) pthread_join(others[t], NULL);
    qsort(taken, count, sizeof(double), ascending);
    double work_done = now.chains ? 2.0 * CHAINS * (WIDTH * 8 / now.chains)
                                  : (double)now.kind->counted * share() * WIDTH;
    return work_done * now.repeats * now.threads / taken[(int)(0.15 * (count - 1))];
}

int main(int count, char **arguments) {
    char name[32];
    double milliseconds;
    struct stat status;
    int file = count == 2 ? open(arguments[1], O_RDWR) : -1;
    if (file < 0 || fstat(file, &status)) return 1;
    now.memory = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (now.memory == MAP_FAILED || status.st_size < LARGEST + SLACK) return 1;
    float *numbers = (float *)now.memory;
    for (long i = 0; i < status.st_size / 4; i++) numbers[i] = 0.5f + (float)(i * 2654435761u % 1000) / 1000;
    printf("ready\n"), fflush(stdout);
    while (scanf("%31s %ld %d %d %lf", name, &now.bytes, &now.threads, &now.stretches, &milliseconds) == 5) {
        double value = 0;
        now.pieces = now.bytes / (PIECE * (now.threads < 4 ? 1 : now.threads / 2));
        if (now.pieces < 1) now.pieces = 1;
        now.chains = !strcmp(name, "fma32") ? 32 : !strcmp(name, "fma64") ? 64 : 0;
        now.kind = NULL;
        for (unsigned k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
            if (!strcmp(name, kinds[k].name)) now.kind = &kinds[k];
        if (now.threads <= MOST_THREADS && (now.chains || (now.kind && now.bytes <= LARGEST))) {
            if (now.chains) now.pieces = 1;
            value = answer(milliseconds);
        }
        printf("%.6e\n", value), fflush(stdout);
    }
    return 0;
}
