/* Replays pre-encoded Kafka requests over many connections and measures the answers.
 *
 * The requests come from a file of framed requests (see requests.py); connection i replays request i % count.
 * Every answer is parsed far enough to see its correlation id and its error code: an answer that carries an
 * error, arrives out of order or cannot be parsed counts as a failure, so a broker cannot win by refusing.
 * Fetch answers are walked batch by batch and the next request asks for the offset that follows.
 *
 * The broker's CPU time is read from /proc at both ends of the measured window, so warm-up is not counted.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IN_FLIGHT_MAX 64
#define RING_BYTES_MAX (64 * 1024)
#define ANSWER_BYTES_MAX (256L * 1024 * 1024)
#define CORRELATION_AT 8   /* after size, api key and version */
#define SUB_BUCKETS 128    /* histogram: 128 linear steps per power of two, under 1 % error */
#define BUCKETS (64 * SUB_BUCKETS)

enum mode { PRODUCE, FETCH, METADATA, COMMIT, IDLE };

static struct {
  enum mode mode;
  int port, connections, in_flight, threads, pid_count;
  double seconds, warmup;
  long bytes_max, offset_at;
  int pids[64];
  uint8_t *file;
  long file_bytes;
  long *request_at;
  int request_count;
} opt = {.connections = 1, .in_flight = 1, .threads = 1, .seconds = 5, .warmup = 1, .offset_at = -1};

struct connection {
  int fd;
  uint8_t *ring;      /* `copies` copies of this connection's request */
  long request_bytes, copies;
  long send_at;       /* byte position inside the ring */
  long sent, answered; /* whole requests */
  uint64_t started_ns[IN_FLIGHT_MAX];
  uint8_t *answer;
  long answer_bytes, answer_room;
  int64_t next_offset;
  bool wants_out;
};

struct worker {
  pthread_t thread;
  int first, last; /* connections [first, last) */
  struct connection *connections;
  uint64_t *histogram;
  volatile uint64_t answers, bytes, records;
  uint64_t failures;
  int first_error;
  char *problem;
};

static volatile bool measuring, stopping;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
  fprintf(stderr, "loadgen: %s: %s\n", what, errno ? strerror(errno) : "bad input");
  exit(1);
}

static int16_t get_i16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return (int16_t)be16toh(v); }
static int32_t get_i32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return (int32_t)be32toh(v); }
static int64_t get_i64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return (int64_t)be64toh(v); }
static void put_i32(uint8_t *p, int32_t x) { uint32_t v = htobe32((uint32_t)x); memcpy(p, &v, 4); }
static void put_i64(uint8_t *p, int64_t x) { uint64_t v = htobe64((uint64_t)x); memcpy(p, &v, 8); }

/* ---- histogram ------------------------------------------------------------------------------------------- */

static int bucket_of(uint64_t ns) {
  if (ns < SUB_BUCKETS) return (int)ns;
  int shift = 63 - __builtin_clzll(ns) - 7; /* keep the top 8 bits: a leading one and 7 steps */
  return (shift + 1) * SUB_BUCKETS + (int)((ns >> shift) - SUB_BUCKETS);
}

static double bucket_us(int bucket) {
  if (bucket < SUB_BUCKETS) return bucket / 1e3;
  int shift = bucket / SUB_BUCKETS - 1;
  return (double)(((uint64_t)(bucket % SUB_BUCKETS) + SUB_BUCKETS) << shift) / 1e3;
}

static double percentile_us(const uint64_t *histogram, uint64_t total, double share) {
  uint64_t rank = (uint64_t)((double)total * share), seen = 0;
  for (int i = 0; i < BUCKETS; i++) {
    seen += histogram[i];
    if (seen > rank) return bucket_us(i);
  }
  return 0;
}

/* ---- answers --------------------------------------------------------------------------------------------- */

struct cursor { const uint8_t *at, *end; bool bad; };

static const uint8_t *take(struct cursor *c, long n) {
  static const uint8_t zeros[16];
  if (c->bad || n < 0 || c->end - c->at < n) { c->bad = true; return zeros; }
  const uint8_t *p = c->at;
  c->at += n;
  return p;
}

static uint64_t take_uvarint(struct cursor *c) {
  uint64_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    uint8_t byte = *take(c, 1);
    value |= (uint64_t)(byte & 127) << shift;
    if (byte < 128) return value;
  }
  c->bad = true;
  return 0;
}

static void skip_compact(struct cursor *c) { /* a compact string or bytes; length is stored plus one */
  uint64_t n = take_uvarint(c);
  if (n > 1) {
    if (c->end - c->at < (long)(n - 1)) { c->bad = true; return; }
    c->at += n - 1;
  }
}

/* Produce v9-v12: the error of the first partition (each request writes one partition). */
static int read_produce(struct cursor *c) {
  take_uvarint(c);
  skip_compact(c);
  take_uvarint(c);
  take(c, 4);
  return get_i16(take(c, 2));
}

static int read_metadata(struct cursor *c) {
  take(c, 4);
  uint64_t brokers = take_uvarint(c);
  for (uint64_t i = 1; i < brokers && !c->bad; i++) {
    take(c, 4); skip_compact(c); take(c, 4); skip_compact(c); take_uvarint(c);
  }
  skip_compact(c);
  take(c, 4);
  if (take_uvarint(c) != 2) c->bad = true; /* exactly one topic */
  return get_i16(take(c, 2));
}

/* OffsetCommit v8: the error of the first partition (each request commits one). */
static int read_commit(struct cursor *c) {
  take(c, 4);
  if (take_uvarint(c) != 2) c->bad = true;
  skip_compact(c);
  take_uvarint(c);
  take(c, 4);
  return get_i16(take(c, 2));
}

static int read_fetch(struct cursor *c, struct connection *k, struct worker *w) {
  take(c, 4);
  int error = get_i16(take(c, 2));
  take(c, 4);
  if (take_uvarint(c) != 2) c->bad = true;
  skip_compact(c);
  take_uvarint(c);
  take(c, 4);
  if (!error) error = get_i16(take(c, 2)); else take(c, 2);
  int64_t high_watermark = get_i64(take(c, 8));
  take(c, 16);
  uint64_t aborted = take_uvarint(c);
  if (aborted > 1) c->bad = true; /* the benchmark writes no transactions */
  take(c, 4);
  long left = (long)take_uvarint(c) - 1;
  if (error || c->bad) return error;
  uint64_t batches = 0;
  while (left >= 61 && !c->bad) { /* a broker may cut the last batch short: ask for it again */
    int64_t base = get_i64(c->at);
    long size = get_i32(c->at + 8) + 12;
    if (size > left) break;
    if (batches ? base != k->next_offset : base > k->next_offset) c->bad = true;
    const uint8_t *batch = take(c, size);
    k->next_offset = base + get_i32(batch + 23) + 1;
    w->records += (uint64_t)get_i32(batch + 57);
    left -= size;
    batches++;
  }
  if (!batches) c->bad = true; /* nothing arrived although the offset lies below the end */
  if (k->next_offset >= high_watermark) k->next_offset = 0;
  return 0;
}

static void fail(struct worker *w, int error, char *problem) {
  if (!w->failures++) { w->first_error = error; w->problem = problem; }
}

static void handle_answer(struct worker *w, struct connection *k, const uint8_t *frame, long size, uint64_t now) {
  struct cursor c = {frame, frame + size, false};
  int32_t correlation = get_i32(take(&c, 4));
  take_uvarint(&c); /* header v1: no tagged fields expected, count only */
  int error = 0;
  if (opt.mode == PRODUCE) error = read_produce(&c);
  else if (opt.mode == METADATA) error = read_metadata(&c);
  else if (opt.mode == COMMIT) error = read_commit(&c);
  else if (opt.mode == FETCH) error = read_fetch(&c, k, w);
  if (c.bad) fail(w, error, "an answer could not be parsed");
  else if (error) fail(w, error, "an answer carried an error code");
  else if (correlation != (int32_t)(k->answered % opt.in_flight)) fail(w, 0, "an answer came out of order");
  uint64_t took = now - k->started_ns[k->answered % opt.in_flight];
  k->answered++;
  if (measuring) { w->histogram[bucket_of(took)]++; w->answers++; }
}

static void receive(struct worker *w, struct connection *k) {
  if (k->answer_room == k->answer_bytes) {
    k->answer_room *= 2;
    if (k->answer_room > ANSWER_BYTES_MAX || !(k->answer = realloc(k->answer, (size_t)k->answer_room))) die("answer too big");
  }
  long n = recv(k->fd, k->answer + k->answer_bytes, (size_t)(k->answer_room - k->answer_bytes), 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) { errno = n ? errno : ECONNRESET; die("the broker closed a connection"); }
  if (measuring && opt.mode != PRODUCE) w->bytes += (uint64_t)n;
  k->answer_bytes += n;
  uint64_t now = now_ns();
  long at = 0;
  while (k->answer_bytes - at >= 4) {
    long size = get_i32(k->answer + at);
    if (size < 4 || size > ANSWER_BYTES_MAX) die("nonsense answer size");
    if (k->answer_bytes - at < 4 + size) {
      if (4 + size > k->answer_room) {
        k->answer_room = 4 + size + 4096;
        if (!(k->answer = realloc(k->answer, (size_t)k->answer_room))) die("out of memory");
      }
      break;
    }
    handle_answer(w, k, k->answer + at + 4, size, now);
    at += 4 + size;
  }
  if (at) memmove(k->answer, k->answer + at, (size_t)(k->answer_bytes - at));
  k->answer_bytes -= at;
}

/* ---- requests -------------------------------------------------------------------------------------------- */

static void prepare_single(struct connection *k) { /* big requests and fetches are patched one at a time */
  put_i32(k->ring + CORRELATION_AT, (int32_t)(k->sent % opt.in_flight));
  if (opt.offset_at >= 0) put_i64(k->ring + opt.offset_at, k->next_offset);
}

static bool send_more(struct worker *w, struct connection *k) { /* false when the socket is full */
  while (k->sent - k->answered < opt.in_flight) {
    long ring_bytes = k->copies * k->request_bytes;
    if (k->copies == 1 && k->send_at == 0) prepare_single(k);
    long room = opt.in_flight - (k->sent - k->answered);
    long until = k->send_at / k->request_bytes * k->request_bytes + room * k->request_bytes;
    if (until > ring_bytes) until = ring_bytes;
    uint64_t now = now_ns();
    long n = send(k->fd, k->ring + k->send_at, (size_t)(until - k->send_at), MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return false;
    if (n < 0) die("send");
    if (measuring && opt.mode == PRODUCE) w->bytes += (uint64_t)n;
    long first = k->send_at % k->request_bytes ? k->send_at / k->request_bytes + 1 : k->send_at / k->request_bytes;
    long begun = (k->send_at + n + k->request_bytes - 1) / k->request_bytes;
    long whole_before = k->send_at / k->request_bytes;
    for (long i = first; i < begun; i++) k->started_ns[(k->sent + i - whole_before) % opt.in_flight] = now;
    k->sent += (k->send_at + n) / k->request_bytes - whole_before;
    k->send_at = (k->send_at + n) % ring_bytes;
  }
  return true;
}

static void *work(void *argument) {
  struct worker *w = argument;
  int epoll = epoll_create1(0);
  for (int i = w->first; i < w->last; i++) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT, .data.ptr = &w->connections[i]};
    w->connections[i].wants_out = true;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, w->connections[i].fd, &event)) die("epoll");
  }
  struct epoll_event events[256];
  while (!stopping) {
    int n = epoll_wait(epoll, events, 256, 50);
    for (int i = 0; i < n; i++) {
      struct connection *k = events[i].data.ptr;
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(w, k);
      bool full = !send_more(w, k);
      if (full != k->wants_out) {
        k->wants_out = full;
        struct epoll_event event = {.events = EPOLLIN | (full ? EPOLLOUT : 0), .data.ptr = k};
        epoll_ctl(epoll, EPOLL_CTL_MOD, k->fd, &event);
      }
    }
    if (w->failures > 1000) break;
  }
  close(epoll);
  return NULL;
}

/* ---- set-up and report ----------------------------------------------------------------------------------- */

static int connect_to(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static void open_connection(struct connection *k, int index) {
  int which = index % opt.request_count;
  const uint8_t *request = opt.file + opt.request_at[which];
  k->request_bytes = opt.request_at[which + 1] - opt.request_at[which];
  bool small = opt.mode != FETCH && k->request_bytes * opt.in_flight <= RING_BYTES_MAX;
  k->copies = small ? opt.in_flight : 1;
  k->ring = malloc((size_t)(k->copies * k->request_bytes));
  for (long i = 0; i < k->copies; i++) {
    memcpy(k->ring + i * k->request_bytes, request, (size_t)k->request_bytes);
    put_i32(k->ring + i * k->request_bytes + CORRELATION_AT, (int32_t)i);
  }
  k->answer_room = 16384;
  k->answer = malloc((size_t)k->answer_room);
  k->fd = connect_to(opt.port);
}

static double process_cpu_s(int pid) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  if (!fgets(line, sizeof line, f)) line[0] = 0;
  fclose(f);
  char *after = strrchr(line, ')');
  unsigned long user = 0, kernel = 0;
  if (after) sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
  return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static double broker_cpu_s(void) {
  double sum = 0;
  for (int i = 0; i < opt.pid_count; i++) sum += process_cpu_s(opt.pids[i]);
  return sum;
}

static double own_cpu_s(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static void sleep_s(double seconds) {
  struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&t, NULL);
}

static uint64_t total_bytes(struct worker *workers) {
  uint64_t sum = 0;
  for (int i = 0; i < opt.threads; i++) sum += workers[i].bytes;
  return sum;
}

static void run_idle(struct connection *connections) { /* each has spoken once, then only stays open */
  for (int i = 0; i < opt.connections; i++) {
    struct connection *k = &connections[i];
    uint8_t size[4], scratch[4096];
    if (send(k->fd, k->ring, (size_t)k->request_bytes, MSG_NOSIGNAL) != k->request_bytes) die("send");
    if (recv(k->fd, size, 4, MSG_WAITALL) != 4) die("no answer on an idle connection");
    for (long left = get_i32(size); left > 0;) {
      long n = recv(k->fd, scratch, (size_t)(left < 4096 ? left : 4096), 0);
      if (n <= 0) die("answer cut short");
      left -= n;
    }
  }
  printf("{\"open\": %d}\n", opt.connections);
  fflush(stdout);
  while (getchar() != EOF) {}
}

static int run_load(struct connection *connections) {
  struct worker *workers = calloc((size_t)opt.threads, sizeof *workers);
  for (int i = 0; i < opt.connections; i++) fcntl(connections[i].fd, F_SETFL, O_NONBLOCK);
  for (int i = 0; i < opt.threads; i++) {
    workers[i] = (struct worker){.connections = connections, .histogram = calloc(BUCKETS, sizeof(uint64_t)),
                                 .first = opt.connections * i / opt.threads, .last = opt.connections * (i + 1) / opt.threads};
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) die("thread");
  }
  sleep_s(opt.warmup);
  double cpu = broker_cpu_s(), own = own_cpu_s();
  uint64_t begin = now_ns();
  measuring = true;
  while ((double)(now_ns() - begin) < opt.seconds * 1e9 && !(opt.bytes_max && total_bytes(workers) >= (uint64_t)opt.bytes_max))
    sleep_s(0.005);
  measuring = false;
  double took = (double)(now_ns() - begin) / 1e9;
  cpu = broker_cpu_s() - cpu;
  own = own_cpu_s() - own;
  stopping = true;
  uint64_t *sum = calloc(BUCKETS, sizeof(uint64_t)), answers = 0, bytes = 0, records = 0, failures = 0;
  int first_error = 0;
  const char *problem = "";
  for (int i = 0; i < opt.threads; i++) {
    pthread_join(workers[i].thread, NULL);
    for (int b = 0; b < BUCKETS; b++) sum[b] += workers[i].histogram[b];
    answers += workers[i].answers; bytes += workers[i].bytes; records += workers[i].records;
    if (workers[i].failures && !failures) { first_error = workers[i].first_error; problem = workers[i].problem; }
    failures += workers[i].failures;
  }
  printf("{\"seconds\": %.4f, \"requests\": %lu, \"bytes\": %lu, \"records\": %lu, \"failures\": %lu, \"first_error\": %d, "
         "\"problem\": \"%s\", \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"client_cpu_s\": %.3f, \"broker_cpu_s\": %.3f}\n",
         took, answers, bytes, records, failures, first_error, problem, percentile_us(sum, answers, 0.5),
         percentile_us(sum, answers, 0.99), percentile_us(sum, answers, 0.999), own, cpu);
  return failures ? 4 : 0;
}

static void load_requests(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) die(path);
  fseek(f, 0, SEEK_END);
  opt.file_bytes = ftell(f);
  rewind(f);
  opt.file = malloc((size_t)opt.file_bytes);
  if (fread(opt.file, 1, (size_t)opt.file_bytes, f) != (size_t)opt.file_bytes) die(path);
  fclose(f);
  opt.request_at = calloc((size_t)opt.file_bytes / 8 + 2, sizeof(long));
  long at = 0;
  while (at + 4 <= opt.file_bytes) {
    opt.request_at[opt.request_count++] = at;
    at += 4 + get_i32(opt.file + at);
  }
  errno = 0;
  if (at != opt.file_bytes || !opt.request_count) die("the request file is not a row of framed requests");
  opt.request_at[opt.request_count] = at;
}

static void parse_options(int argc, char **argv) {
  static const struct option names[] = {
      {"port", 1, 0, 'p'},    {"connections", 1, 0, 'c'}, {"in-flight", 1, 0, 'k'}, {"threads", 1, 0, 't'},
      {"seconds", 1, 0, 's'}, {"warmup", 1, 0, 'w'},      {"bytes-max", 1, 0, 'b'}, {"offset-at", 1, 0, 'o'},
      {"pid", 1, 0, 'P'},     {"requests", 1, 0, 'r'},    {0, 0, 0, 0}};
  static const char *const modes[] = {"produce", "fetch", "metadata", "commit", "idle"};
  int mode = 0;
  errno = 0;
  if (argc < 2) die("usage: loadgen produce|fetch|metadata|commit|idle --port N --requests FILE ...");
  while (mode < 5 && strcmp(argv[1], modes[mode])) mode++;
  if (mode == 5) die("unknown mode");
  opt.mode = (enum mode)mode;
  optind = 2;
  for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
    if (o == 'p') opt.port = atoi(optarg);
    else if (o == 'c') opt.connections = atoi(optarg);
    else if (o == 'k') opt.in_flight = atoi(optarg);
    else if (o == 't') opt.threads = atoi(optarg);
    else if (o == 's') opt.seconds = atof(optarg);
    else if (o == 'w') opt.warmup = atof(optarg);
    else if (o == 'b') opt.bytes_max = atol(optarg);
    else if (o == 'o') opt.offset_at = atol(optarg);
    else if (o == 'P' && opt.pid_count < 64) opt.pids[opt.pid_count++] = atoi(optarg);
    else if (o == 'r') load_requests(optarg);
    else exit(1);
  }
  errno = 0;
  if (!opt.port || !opt.request_count || opt.in_flight < 1 || opt.in_flight > IN_FLIGHT_MAX || opt.threads < 1) die("options");
  if (opt.mode == FETCH && opt.in_flight != 1) die("a fetch needs the answer before it: one in flight");
  if (opt.threads > opt.connections) opt.threads = opt.connections;
}

int main(int argc, char **argv) {
  parse_options(argc, argv);
  struct connection *connections = calloc((size_t)opt.connections, sizeof *connections);
  for (int i = 0; i < opt.connections; i++) open_connection(&connections[i], i);
  if (opt.mode == IDLE) { run_idle(connections); return 0; }
  return run_load(connections);
}
