/* Redis as most C programs use it: blocking threads with a hiredis connection each.
 *
 *   hiredis_threads PORT TASKS KEYS CYCLES      prints one line of JSON
 *
 * The lock is SET NX PX with an owner of its own for every acquire, released by a script that
 * compares the owner and deletes; a key that is taken is asked for again at once. */
#include "measure.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 4096, KEYS_MAX = 1000000, LEASE_MS = 120000, SHA_SIZE = 41 };

static const char release_script[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

static uint16_t port;
static uint32_t task_count, key_count, cycle_count;
static _Atomic uint32_t begun, ended;
static uint32_t *samples;

struct task {
  uint32_t number;
  pthread_t thread;
  redisContext *redis;
  char script[SHA_SIZE];
};

static redisReply *must(const struct task *task, redisReply *reply, int type) {
  if (reply && reply->type == type) return reply;
  fprintf(stderr, "hiredis_threads: %s\n", reply ? reply->str : task->redis->errstr);
  exit(1);
}

static void prepare(struct task *task) {
  task->redis = redisConnect("127.0.0.1", port);
  if (!task->redis || task->redis->err) fail("redisConnect");
  redisReply *reply =
      must(task, redisCommand(task->redis, "SCRIPT LOAD %s", release_script), REDIS_REPLY_STRING);
  snprintf(task->script, sizeof task->script, "%s", reply->str);
  freeReplyObject(reply);
}

static void acquire(struct task *task, uint32_t cycle) {
  for (bool granted = false; !granted;) {
    redisReply *reply = redisCommand(task->redis, "SET cycle-%06u %08x%08x NX PX %d",
                                     task->number % key_count, cycle, task->number, LEASE_MS);
    granted = reply && reply->type == REDIS_REPLY_STATUS;
    if (!granted) must(task, reply, REDIS_REPLY_NIL);
    freeReplyObject(reply);
  }
}

static void release(struct task *task, uint32_t cycle) {
  redisReply *reply =
      must(task,
           redisCommand(task->redis, "EVALSHA %s 1 cycle-%06u %08x%08x", task->script,
                        task->number % key_count, cycle, task->number),
           REDIS_REPLY_INTEGER);
  if (reply->integer != 1) {
    fprintf(stderr, "hiredis_threads: a lock was lost\n");
    exit(1);
  }
  freeReplyObject(reply);
}

static void *work(void *argument) {
  struct task *task = argument;
  for (uint32_t cycle; (cycle = atomic_fetch_add(&begun, 1)) < cycle_count;) {
    int64_t start = now_ns();
    acquire(task, cycle);
    release(task, cycle);
    samples[atomic_fetch_add(&ended, 1)] = (uint32_t)(now_ns() - start);
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: hiredis_threads PORT TASKS KEYS CYCLES\n");
    return 64;
  }
  port = (uint16_t)number(argv[1], 1, 65535);
  task_count = number(argv[2], 1, THREADS_MAX);
  key_count = number(argv[3], 1, KEYS_MAX);
  cycle_count = number(argv[4], 1, CYCLES_MAX);
  struct task *tasks = calloc(task_count, sizeof *tasks);
  samples = malloc(cycle_count * sizeof *samples);
  if (!tasks || !samples) fail("memory");
  for (uint32_t i = 0; i < task_count; i++) {
    tasks[i].number = i;
    prepare(&tasks[i]);
  }
  int64_t start = now_ns();
  for (uint32_t i = 0; i < task_count; i++)
    if (pthread_create(&tasks[i].thread, NULL, work, &tasks[i]) != 0) fail("pthread_create");
  for (uint32_t i = 0; i < task_count; i++)
    pthread_join(tasks[i].thread, NULL);
  int64_t elapsed = now_ns() - start;
  for (uint32_t i = 0; i < task_count; i++)
    redisFree(tasks[i].redis);
  report(samples, atomic_load(&ended), elapsed);
  free(tasks);
  free(samples);
  return 0;
}
