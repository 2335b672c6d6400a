/* Files that appear whole or not at all: new ones never replace, replaced ones are kept where asked for, failures leave
 * nothing. */
#define _GNU_SOURCE
#include "testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"

enum { MAX_PATH = 600 };
static char folder[256], target[MAX_PATH], kept[MAX_PATH];

/* Stands before that of the C library: a file system without hard links where asked for. */
static bool no_links;

int link(const char *existing, const char *path)
{
    if (!no_links)
        return linkat(AT_FDCWD, existing, AT_FDCWD, path, 0);
    errno = EPERM;
    return -1;
}

/* The same for bringing parts of a large file to the disk: an errno where it is to fail. */
static int range_error;
static unsigned n_ranges;

int sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags)
{
    n_ranges += flags & SYNC_FILE_RANGE_WAIT_AFTER ? 1 : 0;
    errno = range_error;
    return range_error && (flags & SYNC_FILE_RANGE_WAIT_AFTER) ? -1 : 0;
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-atomic.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    snprintf(target, sizeof target, "%s/target", folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    return 0;
}

/* Names in the folder, and removes them where asked to. */
static size_t count_names(bool remove_all)
{
    size_t n = 0;
    char path[MAX_PATH];
    DIR *entries = opendir(folder);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (remove_all)
            remove(path);
    }
    closedir(entries);
    return n;
}

static int tear_down(void **state)
{
    count_names(true);
    return rmdir(folder);
}

static void write_plainly(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static void assert_holds(const char *path, const char *text)
{
    char seen[100] = {0};
    FILE *f = fopen(path, "r");
    if (!f)
        fail_because("%s is missing", path);
    const size_t n = fread(seen, 1, sizeof seen - 1, f);
    fclose(f);
    assert_int_equal(n, strlen(text));
    assert_string_equal(seen, text);
}

static atomic_file begin_with(const char *text)
{
    atomic_file file;
    assert_ok(atomic_file_begin(&file, target));
    assert_ok(atomic_file_write(&file, text, strlen(text)));
    return file;
}

/* A file that appears between the check of a caller and the commit stays as it is; so does a link that points nowhere. */
static void test_new_file_never_replaces(void **state)
{
    atomic_file file = begin_with("ours");
    write_plainly(target, "theirs");
    assert_status(atomic_file_commit_new(&file), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), target));
    assert_holds(target, "theirs");
    assert_int_equal(count_names(false), 1); /* the temporary is gone */
    unlink(target);
    file = begin_with("ours");
    assert_int_equal(symlink("nowhere", target), 0);
    assert_status(atomic_file_commit_new(&file), COMET_ERROR_IO);
    struct stat s;
    assert_true(lstat(target, &s) == 0 && S_ISLNK(s.st_mode));
    assert_int_equal(count_names(false), 1);
    unlink(target);
    file = begin_with("ours");
    assert_int_equal(access(target, F_OK), -1); /* not before the commit */
    assert_ok(atomic_file_commit_new(&file));
    assert_holds(target, "ours");
    assert_int_equal(count_names(false), 1);
}

static void test_replace(void **state)
{
    write_plainly(target, "old");
    atomic_file file = begin_with("new");
    assert_holds(target, "old");
    assert_ok(atomic_file_commit(&file, NULL));
    assert_holds(target, "new");
    assert_int_equal(count_names(false), 1);
    atomic_file_abandon(&file); /* nothing happens after a commit */
    assert_holds(target, "new");
}

/* The old file is found under another name, which may have had one before; a first file leaves none. */
static void test_keep_the_old(void **state)
{
    atomic_file file = begin_with("first");
    assert_ok(atomic_file_commit(&file, kept));
    assert_holds(target, "first");
    assert_int_equal(count_names(false), 1);
    file = begin_with("second");
    assert_ok(atomic_file_commit(&file, kept));
    file = begin_with("third");
    assert_ok(atomic_file_commit(&file, kept));
    assert_holds(target, "third");
    assert_holds(kept, "second");
    assert_int_equal(count_names(false), 2);
}

/* Until the new file has its name the old one has it too: where the last rename fails, nothing is lost. */
static void test_old_stays_under_its_name(void **state)
{
    write_plainly(target, "old");
    atomic_file file = begin_with("new");
    unlink(file.temporary); /* as if another process had removed it */
    assert_status(atomic_file_commit(&file, kept), COMET_ERROR_IO);
    assert_holds(target, "old");
    assert_holds(kept, "old");
    assert_int_equal(count_names(false), 2);
}

/* Without hard links: a check before the rename, and the old file moves. */
static void test_without_links(void **state)
{
    no_links = true;
    atomic_file file = begin_with("ours");
    write_plainly(target, "theirs");
    const comet_status status = atomic_file_commit_new(&file);
    no_links = false;
    assert_status(status, COMET_ERROR_IO);
    assert_holds(target, "theirs");
    assert_int_equal(count_names(false), 1);
    no_links = true;
    file = begin_with("new");
    const comet_status replaced = atomic_file_commit(&file, kept);
    unlink(target);
    file = begin_with("first");
    const comet_status first = atomic_file_commit_new(&file);
    no_links = false;
    assert_ok(replaced);
    assert_ok(first);
    assert_holds(kept, "theirs");
    assert_holds(target, "first");
    assert_int_equal(count_names(false), 2);
}

static void test_abandon(void **state)
{
    write_plainly(target, "old");
    atomic_file file = begin_with("new");
    assert_int_equal(count_names(false), 2);
    atomic_file_abandon(&file);
    assert_holds(target, "old");
    assert_int_equal(count_names(false), 1);
    assert_status(atomic_file_begin(&file, "/nonexistent/folder/file"), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), "/nonexistent/folder/file"));
}

/* A patch writes over what is there, and what is appended next goes to the end. */
static void test_patch(void **state)
{
    atomic_file file = begin_with("0123456789");
    assert_ok(atomic_file_patch(&file, 3, "abc", 3));
    assert_ok(atomic_file_write(&file, "!", 1));
    assert_ok(atomic_file_patch(&file, 0, "_", 1));
    assert_ok(atomic_file_commit(&file, NULL));
    assert_holds(target, "_12abc6789!");
}

/* More than one write call takes: every byte is there, in order. */
static void test_large(void **state)
{
    enum { WORDS = (1 << 22) + (1 << 20) + 3 }; /* 20 MiB */
    uint32_t *words = need_malloc(WORDS * sizeof *words);
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i * 2654435761u;
    atomic_file file;
    assert_ok(atomic_file_begin(&file, target));
    assert_ok(atomic_file_write(&file, words, WORDS * sizeof *words));
    assert_ok(atomic_file_commit(&file, NULL));
    blob b = read_file(folder, "target");
    assert_int_equal(b.bytes, WORDS * sizeof *words);
    assert_memory_equal(b.data, words, b.bytes);
    free(b.data);
    free(words);
}

/* Parts of a large file are on the disk before its end is written. A disk that fails then is told, since fsync does not tell it
 * again; a file system without that call is none that fails. */
static void test_parts_are_synced(void **state)
{
    static const int errors[] = {0, ENOSYS, EINVAL, EIO, ENOSPC};
    enum { BYTES = 1 << 26, PARTS = 3 };
    char *part = calloc(1, BYTES);
    assert_non_null(part);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        const bool fails = errors[i] == EIO || errors[i] == ENOSPC;
        atomic_file f;
        comet_status status = atomic_file_begin(&f, target);
        assert_int_equal(status, COMET_OK);
        n_ranges = 0;
        range_error = errors[i];
        for (int k = 0; k < PARTS && status == COMET_OK; k++)
            status = atomic_file_write(&f, part, BYTES);
        assert_int_equal(status, fails ? COMET_ERROR_IO : COMET_OK);
        assert_int_equal(n_ranges, fails ? 1 : PARTS - 1);
        atomic_file_abandon(&f);
    }
    range_error = 0;
    free(part);
    assert_int_equal(count_names(false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_file_never_replaces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keep_the_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_old_stays_under_its_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_abandon, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_patch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_large, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_parts_are_synced, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
