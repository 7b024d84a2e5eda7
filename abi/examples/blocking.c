/* The shortest honest use of a lock: acquire, check the fencing token where the data is, write,
 * release.
 *
 *     blocking HOST:PORT KEY FILE
 *
 * FILE stands for your database. Its one line holds the highest token ever seen and a counter;
 * this program adds one to the counter under the lock on KEY, and refuses to write with a token
 * that is not higher than the stored one. Run many of them at once: no increment is lost.
 *
 *     cc blocking.c $(pkg-config --cflags --libs libticketing) */
#include <ticketing.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The business write. In a real database: one transaction that refuses token <= high-water, stores
 * the new high-water and writes, and commits before the release. */
static int add_one(const char *path, uint64_t token) {
  uint64_t high_water = 0, counter = 0;
  FILE *file = fopen(path, "r");
  if (file) {
    int fields = fscanf(file, "%" SCNu64 " %" SCNu64, &high_water, &counter);
    fclose(file);
    if (fields != 2) {
      fprintf(stderr, "%s: not a ledger of this program\n", path);
      return -1;
    }
  }
  if (token <= high_water) {
    fprintf(stderr, "token %" PRIu64 " is not above %" PRIu64 ": somebody newer was here\n", token,
            high_water);
    return -1;
  }
  file = fopen(path, "w");
  if (!file || fprintf(file, "%" PRIu64 " %" PRIu64 "\n", token, counter + 1) < 0 ||
      fclose(file) != 0) {
    fprintf(stderr, "%s: cannot be written\n", path);
    return -1;
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s HOST:PORT KEY FILE\n", argv[0]);
    return 2;
  }

  /* One broker a process, shared by all its threads. This does not wait for the server. */
  ticketing_broker *broker;
  int rc = ticketing_connect(argv[1], &broker);
  if (rc != TICKETING_OK) {
    fprintf(stderr, "%s: %s; %s\n", argv[1], ticketing_error_text(rc), ticketing_error_advice(rc));
    return 1;
  }

  /* Queue for at most 10 s. The grant lives 30 s, of which our work needs 2: a grant that comes so
   * late that less is left is given back and we hear E_INSUFFICIENT_LEASE. */
  ticketing_key key;
  key.data = argv[2];
  key.len = strlen(argv[2]);
  ticketing_acquire_params params = TICKETING_ACQUIRE_PARAMS_INIT;
  params.keys = &key;
  params.key_count = 1;
  params.wait_ns = 10 * TICKETING_SECOND;
  params.lease_ns = 30 * TICKETING_SECOND;
  params.budget_ns = 2 * TICKETING_SECOND;

  int status = 1;
  ticketing_ticket *ticket;
  char message[TICKETING_MESSAGE_SIZE];
  rc = ticketing_acquire(broker, &params, &ticket, message);
  if (rc != TICKETING_OK) {
    /* Whatever the reason: we do not hold the lock, and do not write. */
    fprintf(stderr, "%s: %s; %s\n", ticketing_error_name(rc), message, ticketing_error_advice(rc));
  } else {
    uint64_t token = ticketing_ticket_token(ticket);
    int wrote = add_one(argv[3], token);

    /* The write is done, so the release decides nothing any more; but say what it said. */
    rc = ticketing_ticket_release(ticket, message);
    if (rc == TICKETING_NOT_CURRENT)
      fprintf(stderr, "the lease had ended before the release\n");
    else if (rc != TICKETING_OK)
      fprintf(stderr, "%s: %s\n", ticketing_error_name(rc), message);
    ticketing_ticket_free(ticket);
    if (wrote == 0) {
      printf("token %" PRIu64 "\n", token);
      status = 0;
    }
  }

  /* Closing lets releases under way finish; free alone would not wait for them. */
  ticketing_broker_close(broker);
  ticketing_broker_free(broker);
  return status;
}
