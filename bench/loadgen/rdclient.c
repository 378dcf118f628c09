/* A producer and a consumer on librdkafka, the C library beneath confluent-kafka, kcat and many others.
 *
 * The library is loaded at run time from the path given (the copy inside the confluent-kafka wheel will do), so no
 * development headers are needed: the few prototypes used are declared here, as librdkafka's stable ABI has them.
 *
 *   rdclient LIBRARY produce BOOTSTRAP TOPIC PARTITIONS COUNT VALUE_BYTES
 *   rdclient LIBRARY consume BOOTSTRAP TOPIC PARTITIONS COUNT VALUE_BYTES
 *   rdclient LIBRARY transact BOOTSTRAP TOPIC PARTITIONS COUNT VALUE_BYTES
 *
 * Produce reports the time from the first record handed over to the last acknowledgement; consume from the first
 * record seen to the last; transact writes and commits transactions of 100 records, one after the other. Any delivery or fetch error ends the run with status 4.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define PARTITION_UA (-1)
#define OFFSET_BEGINNING (-2)
#define ERR_QUEUE_FULL (-184)
#define ERR_PARTITION_EOF (-191)
#define MSG_F_COPY 2
#define POLL_BATCH 10000
#define TRANSACTION_RECORDS 100

typedef struct { /* rd_kafka_message_t */
  int err;
  void *rkt;
  int32_t partition;
  void *payload;
  size_t len;
  void *key;
  size_t key_len;
  int64_t offset;
  void *private_data;
} message;

static void *(*conf_new)(void);
static int (*conf_set)(void *, const char *, const char *, char *, size_t);
static void (*conf_set_dr_msg_cb)(void *, void (*)(void *, const message *, void *));
static void *(*kafka_new)(int, void *, char *, size_t);
static void *(*topic_new)(void *, const char *, void *);
static int (*produce)(void *, int32_t, int, void *, size_t, const void *, size_t, void *);
static int (*last_error)(void);
static int (*poll_events)(void *, int);
static int (*flush_all)(void *, int);
static void *(*queue_new)(void *);
static int (*consume_start_queue)(void *, int32_t, int64_t, void *);
static ssize_t (*consume_batch_queue)(void *, int, message **, size_t);
static void (*message_destroy)(message *);
static const char *(*err2str)(int);
static void *(*init_transactions)(void *, int);
static void *(*begin_transaction)(void *);
static void *(*commit_transaction)(void *, int);
static int (*error_code)(const void *);

static long delivered, failed;
static int first_error;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double own_cpu_s(void) {
  struct rusage r;
  getrusage(RUSAGE_SELF, &r);
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) + (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (!found) { fprintf(stderr, "rdclient: no symbol %s\n", name); exit(1); }
  return found;
}

static void load(const char *path) {
  void *l = dlopen(path, RTLD_NOW);
  if (!l) { fprintf(stderr, "rdclient: %s\n", dlerror()); exit(1); }
  *(void **)&conf_new = symbol(l, "rd_kafka_conf_new");
  *(void **)&conf_set = symbol(l, "rd_kafka_conf_set");
  *(void **)&conf_set_dr_msg_cb = symbol(l, "rd_kafka_conf_set_dr_msg_cb");
  *(void **)&kafka_new = symbol(l, "rd_kafka_new");
  *(void **)&topic_new = symbol(l, "rd_kafka_topic_new");
  *(void **)&produce = symbol(l, "rd_kafka_produce");
  *(void **)&last_error = symbol(l, "rd_kafka_last_error");
  *(void **)&poll_events = symbol(l, "rd_kafka_poll");
  *(void **)&flush_all = symbol(l, "rd_kafka_flush");
  *(void **)&queue_new = symbol(l, "rd_kafka_queue_new");
  *(void **)&consume_start_queue = symbol(l, "rd_kafka_consume_start_queue");
  *(void **)&consume_batch_queue = symbol(l, "rd_kafka_consume_batch_queue");
  *(void **)&message_destroy = symbol(l, "rd_kafka_message_destroy");
  *(void **)&err2str = symbol(l, "rd_kafka_err2str");
  *(void **)&init_transactions = symbol(l, "rd_kafka_init_transactions");
  *(void **)&begin_transaction = symbol(l, "rd_kafka_begin_transaction");
  *(void **)&commit_transaction = symbol(l, "rd_kafka_commit_transaction");
  *(void **)&error_code = symbol(l, "rd_kafka_error_code");
}

static void set(void *conf, const char *key, const char *value) {
  char why[256];
  if (conf_set(conf, key, value, why, sizeof why)) { fprintf(stderr, "rdclient: %s\n", why); exit(1); }
}

static void on_delivery(void *rk, const message *m, void *opaque) {
  (void)rk; (void)opaque;
  if (!m->err) delivered++;
  else if (!failed++) first_error = m->err;
}

static void *client(int type, void *conf) {
  char why[256];
  void *rk = kafka_new(type, conf, why, sizeof why);
  if (!rk) { fprintf(stderr, "rdclient: %s\n", why); exit(1); }
  return rk;
}

static double run_produce(const char *bootstrap, const char *topic, int partitions, long count, size_t size) {
  void *conf = conf_new();
  set(conf, "bootstrap.servers", bootstrap);
  set(conf, "acks", "1");
  set(conf, "linger.ms", "5");
  set(conf, "batch.size", "1000000");
  set(conf, "batch.num.messages", "10000");
  set(conf, "queue.buffering.max.messages", "500000");
  conf_set_dr_msg_cb(conf, on_delivery);
  void *rk = client(0, conf), *rkt = topic_new(rk, topic, NULL);
  char *value = malloc(size);
  for (size_t i = 0; i < size; i++) value[i] = (char)(i * 31 % 251);
  double begin = now_s();
  for (long i = 0; i < count;) {
    if (!produce(rkt, (int32_t)(i / 100 % partitions), MSG_F_COPY, value, size, NULL, 0, NULL)) {
      if (++i % 1000 == 0) poll_events(rk, 0);
    } else if (last_error() == ERR_QUEUE_FULL) poll_events(rk, 5);
    else { failed++; first_error = last_error(); break; }
  }
  flush_all(rk, 60000);
  return now_s() - begin;
}

static double run_consume(const char *bootstrap, const char *topic, int partitions, long count, size_t size) {
  void *conf = conf_new();
  set(conf, "bootstrap.servers", bootstrap);
  set(conf, "queued.max.messages.kbytes", "262144");
  set(conf, "fetch.message.max.bytes", "1048576");
  void *rk = client(1, conf), *rkt = topic_new(rk, topic, NULL), *queue = queue_new(rk);
  message **batch = malloc(POLL_BATCH * sizeof *batch);
  for (int p = 0; p < partitions; p++)
    if (consume_start_queue(rkt, p, OFFSET_BEGINNING, queue)) { failed++; return 0; }
  double begin = 0, deadline = now_s() + 120;
  while (delivered < count && now_s() < deadline && !failed) {
    ssize_t n = consume_batch_queue(queue, 1000, batch, POLL_BATCH);
    for (ssize_t i = 0; i < n; i++) {
      if (!batch[i]->err) {
        if (batch[i]->len != size) { failed++; first_error = 0; }
        if (!delivered++) begin = now_s();
      } else if (batch[i]->err != ERR_PARTITION_EOF && !failed++) first_error = batch[i]->err;
      message_destroy(batch[i]);
    }
  }
  return now_s() - begin;
}

static int went_wrong(void *error) {
  if (!error) return 0;
  if (!failed++) first_error = error_code(error);
  return 1;
}

/* Transactions one after the other, as a stream processor commits them; the first is not counted (it finds the way). */
static double run_transact(const char *bootstrap, const char *topic, int partitions, long count, size_t size) {
  void *conf = conf_new();
  set(conf, "bootstrap.servers", bootstrap);
  set(conf, "transactional.id", topic);
  set(conf, "linger.ms", "0");
  conf_set_dr_msg_cb(conf, on_delivery);
  void *rk = client(0, conf), *rkt = topic_new(rk, topic, NULL);
  char *value = malloc(size);
  for (size_t i = 0; i < size; i++) value[i] = (char)(i * 31 % 251);
  if (went_wrong(init_transactions(rk, 30000))) return 0;
  double begin = 0;
  for (long done = -TRANSACTION_RECORDS; done < count && !failed; done += TRANSACTION_RECORDS) {
    if (done == 0) { delivered = 0; begin = now_s(); }
    if (went_wrong(begin_transaction(rk))) break;
    for (int i = 0; i < TRANSACTION_RECORDS; i++)
      if (produce(rkt, i % partitions, MSG_F_COPY, value, size, NULL, 0, NULL) && !failed++) first_error = last_error();
    if (went_wrong(commit_transaction(rk, 30000))) break;
  }
  return now_s() - begin;
}

int main(int argc, char **argv) {
  if (argc != 8) { fprintf(stderr, "usage: see the source\n"); return 1; }
  load(argv[1]);
  long count = atol(argv[6]);
  size_t size = (size_t)atol(argv[7]);
  double (*run)(const char *, const char *, int, long, size_t) = run_produce;
  if (!strcmp(argv[2], "consume")) run = run_consume;
  if (!strcmp(argv[2], "transact")) run = run_transact;
  double took = run(argv[3], argv[4], atoi(argv[5]), count, size);
  printf("{\"seconds\": %.4f, \"records\": %ld, \"failures\": %ld, \"problem\": \"%s\", \"client_cpu_s\": %.3f}\n", took,
         delivered, failed + (delivered < count), first_error ? err2str(first_error) : "", own_cpu_s());
  fflush(stdout);
  _Exit(failed || delivered < count ? 4 : 0); /* no tear-down: it is not part of what is measured */
}
