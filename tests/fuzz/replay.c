/* Runs a fuzz target over the files of a corpus folder, without a fuzzer. */
#include "fuzz/target.h"

#include <dirent.h>
#include <string.h>

enum { INPUT_MAX = 1 << 20 };

/* 1 for a file that was run, 0 for what is no input (dot files). */
static int replay(const char *folder, const char *name, uint8_t *input) {
  char path[4096];
  if (name[0] == '.') return 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file) {
    perror(path);
    exit(1);
  }
  size_t size = fread(input, 1, INPUT_MAX, file);
  if (ferror(file)) {
    perror(path);
    exit(1);
  }
  fclose(file);
  uint8_t *exact = malloc(size + !size); /* so that a sanitizer sees a read beyond the input */
  if (!exact) exit(1);
  memcpy(exact, input, size);
  LLVMFuzzerTestOneInput(exact, size);
  free(exact);
  return 1;
}

int main(int argc, char **argv) {
  uint8_t *input = malloc(INPUT_MAX);
  if (argc != 2 || !input) {
    fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  DIR *folder = opendir(argv[1]);
  if (!folder) {
    perror(argv[1]);
    return 1;
  }
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder));)
    count += replay(argv[1], entry->d_name, input);
  closedir(folder);
  free(input);
  printf("%d inputs\n", count);
  return count > 0 ? 0 : 1;
}
