/* Temporary files beside their targets: links are not followed, modes are kept, what killed processes left is removed. */
#include "testing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/temporary.h"

enum { MAX_PATH = 600 };
static char folder[256], target[MAX_PATH];

static const char *in_folder(const char *name, char path[MAX_PATH])
{
    snprintf(path, MAX_PATH, "%s/%s", folder, name);
    return path;
}

static int set_up(void **state)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/comet-temporary.XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    in_folder("target", target);
    return 0;
}

/* Counts what begins with ".comet-", and removes everything where asked to. */
static size_t look(bool remove_all)
{
    size_t n = 0;
    char path[MAX_PATH];
    DIR *entries = opendir(folder);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        n += strncmp(entry->d_name, ".comet-", 7) == 0;
        if (remove_all && remove(in_folder(entry->d_name, path)) != 0)
            errno = 0; /* "." and ".." */
    }
    closedir(entries);
    return n;
}

static int tear_down(void **state)
{
    look(true);
    return rmdir(folder);
}

static void write_text(const char *path, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && write(fd, "text", 4) == 4 && fchmod(fd, mode) == 0);
    close(fd);
}

static mode_t mode_of(const char *path)
{
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    return s.st_mode & 07777;
}

/* Replaces the target as writers do. */
static void replace(void)
{
    char *name = NULL;
    const int fd = comet_temporary_open(target, &name);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "new", 3), 3);
    assert_int_equal(comet_temporary_sync(fd, target), 0);
    assert_int_equal(rename(name, target), 0);
    comet_folder_sync(target);
    close(fd);
    free(name);
}

static void test_names(void **state)
{
    char *first = NULL, *second = NULL, *current = NULL, *none = NULL;
    struct stat s;
    const int a = comet_temporary_open(target, &first), b = comet_temporary_open(target, &second);
    assert_true(a >= 0 && b >= 0); /* the first is locked, so it is not taken for a stale one */
    assert_string_not_equal(first, second);
    assert_int_equal(look(false), 2);
    assert_int_equal(strncmp(first, folder, strlen(folder)), 0);
    assert_int_equal(strncmp(first + strlen(folder), "/.comet-", 8), 0);
    assert_int_equal(fcntl(a, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_true(fstat(a, &s) == 0 && S_ISREG(s.st_mode));
    close(a);
    close(b);
    free(first);
    free(second);
    assert_int_equal(comet_temporary_open("/nonexistent/x", &none), -1);
    assert_int_equal(errno, ENOENT);
    assert_null(none);
    assert_int_equal(chdir(folder), 0); /* a name without a folder */
    const int c = comet_temporary_open("x", &current);
    assert_true(c >= 0);
    assert_null(strchr(current, '/'));
    close(c);
    free(current);
    comet_temporary_clean("x");
    comet_temporary_clean("target");
    assert_int_equal(look(false), 0);
    assert_int_equal(chdir("/"), 0);
}

static void test_modes(void **state)
{
    static const mode_t modes[] = {0644, 0600, 0664, 0400, 0777, 0666};
    const mode_t mask = umask(027);
    replace();
    assert_int_equal(mode_of(target), 0640); /* a new file: as the umask says */
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        unlink(target);
        write_text(target, modes[i]);
        replace();
        assert_int_equal(mode_of(target), modes[i]);
    }
    umask(mask);
}

/* Until it has its name, the file of a private one is private too. */
static void test_private_while_written(void **state)
{
    const mode_t mask = umask(0);
    char *name = NULL;
    write_text(target, 0600);
    const int fd = comet_temporary_open(target, &name);
    assert_int_equal(mode_of(name), 0600);
    close(fd);
    free(name);
    umask(mask);
}

/* A link is replaced; the mode is not that of the file it points to. */
static void test_link_as_target(void **state)
{
    char victim[MAX_PATH];
    struct stat s;
    const mode_t mask = umask(022);
    write_text(in_folder("victim", victim), 0666);
    assert_int_equal(symlink("victim", target), 0);
    replace();
    assert_true(lstat(target, &s) == 0 && S_ISREG(s.st_mode));
    assert_int_equal(s.st_mode & 0777, 0644);
    assert_true(stat(victim, &s) == 0 && s.st_size == 4);
    umask(mask);
}

/* A process that dies in the middle of writing, its temporary's name in `name`. */
static void leave_one(char name[MAX_PATH])
{
    int ends[2], status = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        char *made = NULL;
        if (comet_temporary_open(target, &made) >= 0 && write(ends[1], made, strlen(made) + 1) > 0)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_true(read(ends[0], name, MAX_PATH) > 0);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(access(name, F_OK), 0);
}

static void test_killed_writers(void **state)
{
    char name[MAX_PATH];
    for (int i = 0; i < 5; i++) {
        leave_one(name);
        assert_int_equal(look(false), 1); /* of those before nothing is left */
    }
    replace();
    assert_int_equal(look(false), 0);
    leave_one(name);
    comet_temporary_clean(target);
    assert_int_equal(look(false), 0);
}

/* Only files of this target and of ours go. */
static void test_others_stay(void **state)
{
    static const char *const strangers[] = {".comet-1-2.tmp", "target.tmp", ".comet-notes",
                                            ".comet-0000000000000000-0123456789abcdef.tmp"};
    char name[MAX_PATH], path[MAX_PATH], longer[MAX_PATH + 1];
    for (size_t i = 0; i < COUNT_OF(strangers); i++)
        write_text(in_folder(strangers[i], path), 0644);
    leave_one(name);
    snprintf(longer, sizeof longer, "%sx", name);
    write_text(longer, 0644);
    unlink(name);
    assert_int_equal(symlink("target.tmp", name), 0); /* the name of one, but a link */
    replace();
    for (size_t i = 0; i < COUNT_OF(strangers); i++)
        assert_int_equal(access(in_folder(strangers[i], path), F_OK), 0);
    assert_int_equal(access(longer, F_OK), 0);
    assert_int_equal(access(name, F_OK), 0);
    unlink(name);
    assert_int_equal(mkdir(name, 0777), 0);
    replace();
    assert_int_equal(access(name, F_OK), 0);
}

static void test_links(void **state)
{
    char *name = NULL, *none = NULL, path[MAX_PATH];
    struct stat a, b;
    write_text(target, 0444);
    assert_int_equal(comet_temporary_link(target, in_folder("kept", path), &name), 0);
    assert_true(stat(target, &a) == 0 && stat(name, &b) == 0 && a.st_ino == b.st_ino);
    free(name);
    comet_temporary_clean(path); /* as if the process was killed before the link got its name */
    assert_int_equal(look(false), 0);
    assert_int_equal(access(target, F_OK), 0);
    unlink(target);
    assert_int_equal(comet_temporary_link(target, path, &none), -1);
    assert_int_equal(errno, ENOENT);
    assert_null(none);
}

static void read_target(char text[8])
{
    const int fd = open(target, O_RDONLY);
    const ssize_t n = read(fd, text, 7);
    assert_true(fd >= 0 && n >= 0);
    text[n] = '\0';
    close(fd);
}

/* Begins a new file, after which another writer is faster, and commits it as one that must be new, or may replace. */
static comet_status commit_late(bool must_be_new)
{
    atomic_file file;
    assert_int_equal(atomic_file_begin(&file, target), COMET_OK);
    assert_int_equal(atomic_file_write(&file, "late", 4), COMET_OK);
    write_text(target, 0600);
    return must_be_new ? atomic_file_commit_new(&file) : atomic_file_commit(&file, NULL);
}

static void test_race(void **state)
{
    char text[8];
    assert_int_equal(commit_late(true), COMET_ERROR_IO);
    assert_non_null(strstr(comet_last_error(), "File exists"));
    read_target(text);
    assert_string_equal(text, "text");
    assert_int_equal(commit_late(false), COMET_OK);
    read_target(text);
    assert_string_equal(text, "late");
    assert_int_equal(look(false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_private_while_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_link_as_target, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_writers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_others_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_race, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
