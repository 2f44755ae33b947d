/* The loops behind the raw ceilings: what the hardware does with nothing of a stack in the way.
 *
 * Multiply-adds on registers alone (the FMA peak), and read, write, copy, in-place multiply and triad over float32
 * vectors, the writing ones also with non-temporal stores. They are written with the vector extensions of GCC and
 * Clang, so that the same text serves every processor.
 *
 * Threads: with GOMP_parallel in hand (native.py finds the one that torch uses) the parts run on torch's own threads,
 * which may be spinning on their cores: threads of our own would have to share these with them. Without it each call
 * starts threads and joins them.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float vector32 __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef double vector64 __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef float pack4 __attribute__((vector_size(16), may_alias));
typedef float pack8 __attribute__((vector_size(32), may_alias));
typedef float pack16 __attribute__((vector_size(64), may_alias));

#define STORE(target, value) (*(target) = (value))

/* Stores that go past the caches. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store)
#define STREAM4(target, value) __builtin_nontemporal_store((value), (target))
#define STREAM8 STREAM4
#define STREAM16 STREAM4
#endif
#endif
#if !defined(STREAM4) && (defined(__x86_64__) || defined(__i386__)) && defined(__SSE2__)
#include <immintrin.h>
#define STREAM4(target, value) _mm_stream_ps((float *)(target), (__m128)(value))
#define STREAM8(target, value) _mm256_stream_ps((float *)(target), (__m256)(value))
#define STREAM16(target, value) _mm512_stream_ps((float *)(target), (__m512)(value))
#endif

enum { LANES32 = VECTOR_BYTES / 4, LANES64 = VECTOR_BYTES / 8 };

/* A multiply-add takes four or five cycles and up to four start in one: so many have to be under way at once, in
 * accumulators that all stay in registers, of which AVX-512 and 64-bit Arm have 32 and older x86 has 16. */
#if VECTOR_BYTES == 64 || defined(__aarch64__)
#define ACCUMULATORS 24
#define EACH(DO) \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) \
    DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#else
#define ACCUMULATORS 10
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9)
#endif

enum operation { FMA32, FMA64, READ, WRITE, COPY, INPLACE, TRIAD, WRITE_NT, COPY_NT, TRIAD_NT };

typedef void (*parallel_function)(void (*)(void *), void *, unsigned, unsigned);
typedef int (*count_function)(void);

/* One call. ``elements`` (floats in each vector, a multiple of 16 for each thread) are done ``repeats`` times, with
 * ``apart`` more floats left out between two threads' parts; for the multiply-adds ``repeats`` are iterations. ``form``
 * is one of those below. ``results`` has a place for each thread: what was summed or computed, so that no compiler may
 * leave the work out. As ``_Job`` in native.py. */
struct job {
    int32_t operation;
    int32_t form;
    int32_t threads;
    float *first;
    float *second;
    float *third;
    size_t elements;
    size_t apart;
    size_t repeats;
    double factor;
    double *results;
    parallel_function parallel;
    count_function thread_number;
    count_function thread_count;
};

/* What memory holds may have changed: a repeat is done anew, and a loop stays one instead of a call of memcpy. */
#define MEMORY_CHANGED() __asm__ volatile("" ::: "memory")

/* Two steps that undo each other but for rounding keep the numbers moving between two values in all their bits: a
 * processor may run faster on numbers that stand still. */
#define MULTIPLY_ADDS(NAME, VECTOR, SCALAR, LANES)                                                                     \
    static double NAME(size_t iterations, double factor) {                                                            \
        VECTOR multiplier, back, addend, subtrahend;                                                                  \
        for (int lane = 0; lane < (LANES); lane++) {                                                                  \
            multiplier[lane] = (SCALAR)(factor * (1.2345678901 + 0.0123456789 * lane));                               \
            back[lane] = (SCALAR)0.9 / multiplier[lane];                                                              \
            addend[lane] = (SCALAR)(0.7182818284 + 0.0271828182 * lane);                                              \
            subtrahend[lane] = (SCALAR)(-0.3141592653 - 0.0314159265 * lane);                                         \
        }                                                                                                             \
        EACH(NAME##_START)                                                                                            \
        for (size_t iteration = 0; iteration < iterations; iteration++) {                                             \
            EACH(NAME##_UP) EACH(NAME##_DOWN)                                                                         \
        }                                                                                                             \
        VECTOR total = addend - addend;                                                                               \
        EACH(NAME##_ADD)                                                                                              \
        double sum = 0;                                                                                               \
        for (int lane = 0; lane < (LANES); lane++) sum += total[lane];                                                \
        return sum;                                                                                                   \
    }

#define fma32_START(k) vector32 a##k = addend * (float)(1 + 0.01 * k);
#define fma32_UP(k) a##k = a##k * multiplier + addend;
#define fma32_DOWN(k) a##k = a##k * back + subtrahend;
#define fma32_ADD(k) total += a##k;
MULTIPLY_ADDS(fma32, vector32, float, LANES32)

#define fma64_START(k) vector64 a##k = addend * (1 + 0.01 * k);
#define fma64_UP fma32_UP
#define fma64_DOWN fma32_DOWN
#define fma64_ADD fma32_ADD
MULTIPLY_ADDS(fma64, vector64, double, LANES64)

/* Passes over memory: STREAMS stretches of it abreast, together eight vectors a turn or more. With fewer vectors the
 * loop's own counting shows in the first cache. Several stretches give memory more to do at once than a single one,
 * which its prefetchers follow only so far; short vectors, of which several share a line, do too on some processors.
 * Which form is the fastest depends on the processor and on where the data is, so that all are here to be tried.
 *
 * A stretch starts at a line, and a turn does whole lines of each: stores that go past the caches wait for the rest of
 * a line that they do a part of. What is left of the stretches is done at the end, one vector after another. */
#define TURN 8
#define LINE_FLOATS 16

#define STRETCHES(VECTOR, STREAMS)                                                                                     \
    enum {                                                                                                             \
        LANES = sizeof(VECTOR) / sizeof(float),                                                                        \
        SHARE = TURN / (STREAMS),                                                                                      \
        EACH_STREAM = SHARE * LANES < LINE_FLOATS ? LINE_FLOATS / LANES : SHARE,                                       \
        EACH_TURN = (STREAMS) * EACH_STREAM                                                                            \
    };                                                                                                                 \
    size_t vectors = floats / LANES, stretch = vectors / (STREAMS);                                                    \
    stretch -= stretch % EACH_STREAM

/* Sums go to the lanes at ``to``: adding these up would show in a short pass. */
#define READING(NAME, VECTOR, STREAMS)                                                                                 \
    static void NAME(float *to, const float *a, const float *b, size_t floats, float factor, size_t repeats) {         \
        STRETCHES(VECTOR, STREAMS);                                                                                    \
        (void)b, (void)factor;                                                                                         \
        const VECTOR *from = (const VECTOR *)a;                                                                        \
        VECTOR sums[TURN] = {{0}};                                                                                     \
        for (; repeats; repeats--) {                                                                                   \
            for (size_t done = 0; done < stretch; done += EACH_STREAM)                                                 \
                for (int one = 0; one < EACH_TURN; one++)                                                              \
                    sums[one % TURN] += from[(size_t)(one / EACH_STREAM) * stretch + done + (size_t)(one % EACH_STREAM)];\
            for (size_t i = (STREAMS) * stretch; i < vectors; i++) sums[0] += from[i];                                 \
            MEMORY_CHANGED();                                                                                          \
        }                                                                                                              \
        *(VECTOR *)to += ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));    \
    }

/* VALUE is an expression of the index i, of the vectors x and y and of the number all. */
#define WRITING(NAME, VECTOR, STREAMS, PUT, VALUE)                                                                     \
    static void NAME(float *to, const float *a, const float *b, size_t floats, float factor, size_t repeats) {         \
        STRETCHES(VECTOR, STREAMS);                                                                                    \
        VECTOR *target = (VECTOR *)to;                                                                                 \
        const VECTOR *x = (const VECTOR *)a, *y = (const VECTOR *)b;                                                   \
        VECTOR all;                                                                                                    \
        for (int lane = 0; lane < LANES; lane++) all[lane] = factor;                                                   \
        (void)x, (void)y, (void)all;                                                                                   \
        for (; repeats; repeats--) {                                                                                   \
            for (size_t done = 0; done < stretch; done += EACH_STREAM) {                                               \
                for (int one = 0; one < EACH_TURN; one++) {                                                            \
                    size_t i = (size_t)(one / EACH_STREAM) * stretch + done + (size_t)(one % EACH_STREAM);             \
                    PUT(target + i, VALUE);                                                                            \
                }                                                                                                      \
                MEMORY_CHANGED();                                                                                      \
            }                                                                                                          \
            for (size_t i = (STREAMS) * stretch; i < vectors; i++) PUT(target + i, VALUE);                             \
            MEMORY_CHANGED();                                                                                          \
        }                                                                                                              \
    }

#define PLAIN(SUFFIX, VECTOR, STREAMS)                                                                                 \
    READING(read_##SUFFIX, VECTOR, STREAMS)                                                                           \
    WRITING(write_##SUFFIX, VECTOR, STREAMS, STORE, all)                                                              \
    WRITING(copy_##SUFFIX, VECTOR, STREAMS, STORE, x[i])                                                              \
    WRITING(multiply_##SUFFIX, VECTOR, STREAMS, STORE, x[i] * all)                                                    \
    WRITING(triad_##SUFFIX, VECTOR, STREAMS, STORE, x[i] + all * y[i])

#define PAST_CACHES(SUFFIX, VECTOR, STREAMS, STREAM)                                                                   \
    WRITING(write_past_##SUFFIX, VECTOR, STREAMS, STREAM, all)                                                        \
    WRITING(copy_past_##SUFFIX, VECTOR, STREAMS, STREAM, x[i])                                                        \
    WRITING(triad_past_##SUFFIX, VECTOR, STREAMS, STREAM, x[i] + all * y[i])

/* By vector: each with 1, 2 and 4 stretches. */
#ifdef STREAM4
#define FORMS(LANES)                                                                                                   \
    PLAIN(LANES##_1, pack##LANES, 1) PLAIN(LANES##_2, pack##LANES, 2) PLAIN(LANES##_4, pack##LANES, 4)             \
    PAST_CACHES(LANES##_1, pack##LANES, 1, STREAM##LANES)                                                            \
    PAST_CACHES(LANES##_2, pack##LANES, 2, STREAM##LANES)                                                            \
    PAST_CACHES(LANES##_4, pack##LANES, 4, STREAM##LANES)
#else
#define FORMS(LANES)                                                                                                   \
    PLAIN(LANES##_1, pack##LANES, 1) PLAIN(LANES##_2, pack##LANES, 2) PLAIN(LANES##_4, pack##LANES, 4)
#endif

FORMS(4)
#if VECTOR_BYTES >= 32
FORMS(8)
#endif
#if VECTOR_BYTES >= 64
FORMS(16)
#endif

#if VECTOR_BYTES >= 64
#define ALL_FORMS(LOOP) \
    LOOP##_4_1, LOOP##_4_2, LOOP##_4_4, LOOP##_8_1, LOOP##_8_2, LOOP##_8_4, LOOP##_16_1, LOOP##_16_2, LOOP##_16_4
#elif VECTOR_BYTES >= 32
#define ALL_FORMS(LOOP) LOOP##_4_1, LOOP##_4_2, LOOP##_4_4, LOOP##_8_1, LOOP##_8_2, LOOP##_8_4
#else
#define ALL_FORMS(LOOP) LOOP##_4_1, LOOP##_4_2, LOOP##_4_4
#endif

typedef void (*pass_function)(float *, const float *, const float *, size_t, float, size_t);

enum { FORM_COUNT = 3 * (VECTOR_BYTES >= 64 ? 3 : VECTOR_BYTES >= 32 ? 2 : 1) };

static const pass_function passes[][FORM_COUNT] = {
    [READ] = {ALL_FORMS(read)},
    [WRITE] = {ALL_FORMS(write)},
    [COPY] = {ALL_FORMS(copy)},
    [INPLACE] = {ALL_FORMS(multiply)},
    [TRIAD] = {ALL_FORMS(triad)},
#ifdef STREAM4
    [WRITE_NT] = {ALL_FORMS(write_past)},
    [COPY_NT] = {ALL_FORMS(copy_past)},
    [TRIAD_NT] = {ALL_FORMS(triad_past)},
#endif
};

enum { OPERATIONS = sizeof(passes) / sizeof(passes[0]) };

static void fence(void) {
#if defined(STREAM4) && (defined(__x86_64__) || defined(__i386__))
    __builtin_ia32_sfence();
#endif
}

static void run_part(const struct job *job, int number) {
    size_t floats = job->elements / (size_t)job->threads, start = (floats + job->apart) * (size_t)number;
    float *first = job->first + start, *second = job->second + start, *third = job->third + start;
    double result = 0;
    if (job->operation == FMA32) {
        result = fma32(job->repeats, job->factor);
    } else if (job->operation == FMA64) {
        result = fma64(job->repeats, job->factor);
    } else {
        pass_function pass = passes[job->operation][job->form];
        float lanes[16] __attribute__((aligned(64))) = {0};
        float *target = first;
        if (job->operation == READ) target = lanes;
        if (job->operation == COPY || job->operation == COPY_NT) target = second;
        if (job->operation == TRIAD || job->operation == TRIAD_NT) target = third;
        pass(target, first, second, floats, (float)job->factor, job->repeats);
        for (int lane = 0; lane < 16; lane++) result += lanes[lane];
        fence();
    }
    job->results[number] = result;
}

static void run_parts(void *given) {
    const struct job *job = given;
    int count = job->thread_count();
    for (int number = job->thread_number(); number < job->threads; number += count) run_part(job, number);
}

struct part {
    const struct job *job;
    int number;
};

static void *run_one(void *given) {
    const struct part *part = given;
    run_part(part->job, part->number);
    return NULL;
}

/* 0, or the errno of a thread that could not be started; its part is then done by this one. */
static int run_started(const struct job *job) {
    int failed = 0, others = job->threads - 1;
    pthread_t threads[others];
    struct part parts[others];
    int started[others];
    for (int index = 0; index < others; index++) {
        parts[index].job = job;
        parts[index].number = index + 1;
        int status = pthread_create(&threads[index], NULL, run_one, &parts[index]);
        started[index] = status == 0;
        if (status) failed = status;
    }
    run_part(job, 0);
    for (int index = 0; index < others; index++) {
        if (started[index]) pthread_join(threads[index], NULL);
        else run_part(job, index + 1);
    }
    return failed;
}

/* Does the job; 0, or an error number. */
int boundby_run(const struct job *job) {
    if (job->threads <= 1) {
        run_part(job, 0);
        return 0;
    }
    if (job->parallel) {
        job->parallel(run_parts, (void *)job, (unsigned)job->threads, 0);
        return 0;
    }
    return run_started(job);
}

/* FLOP that one iteration of the multiply-adds makes on one thread, 2 for each multiply-add. */
int boundby_flops(int operation) {
    return 2 * 2 * ACCUMULATORS * (operation == FMA32 ? LANES32 : LANES64);
}

/* How many forms each loop over memory has: vectors of 16, 32 and 64 bytes as far as this processor has them, each with
 * 1, 2 and 4 stretches. */
int boundby_forms(void) {
    return FORM_COUNT;
}

/* Whether there are stores that go past the caches. */
int boundby_has_streaming_stores(void) {
#ifdef STREAM4
    return 1;
#else
    return 0;
#endif
}

/* Runs every loop once on a little memory: an instruction that this processor does not have ends the process here. */
int boundby_check(void) {
    static float data[3 * 256] __attribute__((aligned(64)));
    double result = 0;
    for (int operation = FMA32; operation < OPERATIONS; operation++) {
        for (int form = 0; form < FORM_COUNT; form++) {
            for (int i = 0; i < 3 * 256; i++) data[i] = 1;
            struct job job = {
                .operation = operation, .form = form, .threads = 1, .elements = 256, .repeats = 1, .factor = 1,
                .first = data, .second = data + 256, .third = data + 512, .results = &result,
            };
            if (boundby_run(&job)) return 1;
            if (operation == READ && result != 256) return 2;
            if (operation == TRIAD && data[767] != 2) return 3;
        }
    }
    return 0;
}
