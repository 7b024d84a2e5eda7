#!/usr/bin/env python3
"""Holds the project to its own rules, and each check to finding a small bad example.

A tool that is not installed skips its checks; tests/run.sh installs them."""
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers  # noqa: E402
import names  # noqa: E402
import text  # noqa: E402
import tools  # noqa: E402
import tree  # noqa: E402

GUARDED = "#ifndef TKT_NET_A_H\n#define TKT_NET_A_H\n{}\n#endif\n"


def header(body):
    return {"core/net/a.h": GUARDED.format(body)}


def public(body):
    return {"abi/include/ticketing.h": body}


# Check: (what must be found, what must not be).
EXAMPLES = {
    layers.check: (
        [{"core/base/a.c": '#include "wire/wire.h"\n'},
         {"core/wire/a.c": '#include "net/stream.h"\n'},
         {"core/wire/a.c": '#include "client/client.h"\n'},
         {"core/client/a.h": '#include "server/server.h"\n'},
         {"core/client/a.h": '#  include "net/stream.h"\n'},
         {"core/server/a.c": '#include "client/client.h"\n'},
         {"core/server/a.c": '#include "net/clock.h"\n'},
         {"core/net/a.c": '#include "wire/wire.h"\n'},
         {"core/drive/a.c": '#include "server/server.h"\n'},
         {"core/daemon/a.c": '#include "client/client.h"\n'},
         {"core/daemon/a.c": '#include "drive/drive.h"\n'},
         {"core/client/a.c": "#include <ticketing.h>\n"},
         {"core/cli/acquire.c": '#include "client/client.h"\n'},
         {"core/cli/acquire.c": '#include "daemon/daemon.h"\n'},
         {"core/cli/acquire.c": '#include "base/bytes.h"\n'},
         {"abi/src/a.c": '#include "server/server.h"\n'},
         {"core/net/a.c": '#include "tcp.h"\n'},
         {"core/other/a.c": "int x;\n"},
         {"core/client/a.c": "#include <sys/epoll.h>\n"},
         {"core/server/a.c": "#include <pthread.h>\n"},
         {"core/base/a.c": "#include <time.h>\n"},
         {"core/drive/a.c": "#include <sys/socket.h>\n"},
         {"core/daemon/a.c": "#include <openssl/ssl.h>\n"}],
        [{"core/client/a.c": '#include "client/client.h"\n#include "wire/wire.h"\n#include "base/list.h"\n'
                             "#include <string.h>\n"},
         {"core/drive/a.c": '#include "client/client.h"\n#include "net/poller.h"\n#include <pthread.h>\n'},
         {"core/cli/serve.c": '#include "daemon/daemon.h"\n#include "cli/values.h"\n'},
         {"core/cli/acquire.c": '#include "cli/values.h"\n#include <ticketing.h>\n'},
         {"abi/src/a.c": '#include "drive/drive.h"\n#include "src/handle.h"\n#include "ticketing.h"\n'},
         {"core/net/a.c": "#include <sys/socket.h>\n#include <openssl/ssl.h>\n"},
         {"tests/unit/a_test.c": '#include "server/server.h"\n#include "client/client.h"\n'}]),
    names.top_level: (
        [{"docs/a.md": ""}, {"Makefile": ""}],
        [{"README.md": "", ".gitignore": "", "core/a/b.c": "", ".ci/run": ""}]),
    names.must_exist: (
        [{path: "" for path in names.MUST_EXIST[1:]}],
        [{path: "" for path in names.MUST_EXIST}]),
    names.concepts: (
        [{"core/net/util.c": ""}, {"core/base/string_utils.h": ""}, {"core/common/a.c": ""},
         {"tests/unit/test-helper.py": ""}, {"core/drive/session_manager.c": ""}, {"core/cli/placeholder.c": ""}],
        [{"core/net/stream.c": "", "core/client/commonplace.c": ""}]),
    names.guards: (
        [{"core/net/a.h": "int tkt_a(void);\n"},
         {"core/net/a.h": "#ifndef TKT_A_H\n#define TKT_A_H\n#endif\n"},
         {"core/net/a.h": "#ifndef TKT_NET_A_H\n#define TKT_NET_B_H\n#endif\n"},
         {"abi/include/ticketing.h": "#pragma once\n"},
         {"abi/src/a.h": "#ifndef TKT_A_H\n#define TKT_A_H\n#endif\n"}],
        [header(""), {"core/net/a.h": "/* What it is. */\n" + GUARDED.format("")},
         {"abi/include/ticketing.h": "/* T */\n#ifndef TICKETING_H\n#define TICKETING_H\n#endif\n"},
         {"abi/src/a.h": "#ifndef TKT_ABI_A_H\n#define TKT_ABI_A_H\n#endif\n"}]),
    names.prefixes: (
        [header("int open_it(int a);"), header("struct thing *make(void);"), header("struct thing {"),
         header("enum state { A };"), header("#define LIMIT 3"), header("#define twice(x) (2 * (x))"), header("extern const int limit;"),
         header("static inline int twice(int a) {"), header("unsigned ticketing_inside(void);"),
         public("TICKETING_API int tkt_leak(void);"), public("#define MAX 3"),
         public("typedef struct key {\n  int a;\n} key;")],
        [header("int tkt_open(int a);\nstruct tkt_thing {\n  int (*call)(int a);\n};\n#define TKT_LIMIT 3\n#define tkt_each(x) for (x)\n"
                "extern const int tkt_limit[];\n/* int open_it(int a); */\nenum { TKT_A };\n"
                "static inline int tkt_twice(int a) {\n  return more(a);\n}\n"),
         public("#define TICKETING_MAX 3\nTICKETING_API int ticketing_a(void);\ntypedef struct ticketing_k {\n"
                "  int size;\n} ticketing_k;")]),
    names.public_comments: (
        [public("TICKETING_API int ticketing_a(void);\n"),
         public("/* Does it. */\nTICKETING_API int ticketing_a(void);\n\nTICKETING_API int ticketing_b(void);\n"),
         public("/* --- group ---------- */\nTICKETING_API int ticketing_a(void);\n"),
         public("/* Does it. */\n\nTICKETING_API int ticketing_a(void);\n")],
        [public("/* Does it. */\nTICKETING_API int ticketing_a(int one,\n"
                "                              int two);\nTICKETING_API int ticketing_b(void);\n\n"
                "/* More than\n * one line. */\nTICKETING_API int ticketing_c(void); /* 0 */\n")]),
    text.marks: (
        [{"core/a/b.c": "/* TO" "DO later */"}, {"README.md": "FIX" "ME"}, {"a.py": "# X" "XX"}],
        [{"core/a/b.c": "mktemp x.XXXXXX; TO" "DOS"}]),
    text.machine_paths: (
        [{"README.md": "see /wo" "rk/main"}, {"a.sh": "cd /ho" "me/me/src"}, {"a.md": "../sha" "red/spec"}],
        [{"README.md": "core/wo" "rk/queue and ~/.local/state"}]),
    text.registry_hosts: (
        [{"tests/a.sh": "pip install -i https://pypi" ".org/simple"}, {"README.md": "on crates" ".io"}],
        [{"README.md": "the crate ticketing"}]),
    text.length: (
        [{"core/a/b.c": "int x;\n" * 601}],
        [{"core/a/b.c": "int x;\n" * 600, "README.md": "a\n" * 2000}]),
    text.white_space: (
        [{"core/a/b.c": "int x; \n"}, {"core/a/b.c": "int x;"}],
        [{"core/a/b.c": "int x;\n"}]),
    tools.clang_format: (
        [{".clang-format": "BasedOnStyle: LLVM\n", "core/a/b.c": "int  x ;\n"}],
        [{".clang-format": "BasedOnStyle: LLVM\n", "core/a/b.c": "int x;\n", "a.py": "x  = 1\n"}]),
    tools.shellcheck: (
        [{"tests/a.sh": "#!/usr/bin/env bash\nrm -r $1\n"}, {".ci/run": "#!/usr/bin/env bash\necho `ls`\n"}],
        [{"tests/a.sh": "#!/usr/bin/env bash\nrm -r \"$1\"\n", "a.py": "echo $1\n"}]),
}
TOOL_OF = {tools.clang_format: "clang-format", tools.shellcheck: "shellcheck"}


def needs(check):
    tool = TOOL_OF.get(check)
    return unittest.skipIf(tool and not shutil.which(tool), f"{tool} is not installed")


class Project(unittest.TestCase):
    """The rules hold for every file git tracks."""

    @classmethod
    def setUpClass(cls):
        cls.files = tree.project()


class Checks(unittest.TestCase):
    """Each check finds what it is for, and nothing else."""


def add_tests():
    for check, (bad, good) in EXAMPLES.items():
        name = f"{check.__module__}_{check.__name__}"

        def of_project(self, check=check):
            found = check(self.files)
            self.assertFalse(found, f"{len(found)} found:\n  " + "\n  ".join(found))

        def of_examples(self, check=check, bad=bad, good=good):
            for example in bad:
                with self.subTest(bad=example):
                    self.assertTrue(check(example), "nothing found in a bad example")
            for example in good:
                with self.subTest(good=example):
                    self.assertEqual(check(example), [])

        setattr(Project, f"test_{name}", needs(check)(of_project))
        setattr(Checks, f"test_{name}_finds_bad_examples", needs(check)(of_examples))


add_tests()
if __name__ == "__main__":
    unittest.main()
