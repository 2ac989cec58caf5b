# SPDX-License-Identifier: MIT OR Apache-2.0
"""`python -m corehop check study FILE`: a schedulability study on the workers of Dask.

Everything else is a verb of the program `corehop`.
"""

from __future__ import annotations

import argparse
import json
import sys

from corehop import _errors, _files
from corehop._study import study


def main(arguments: list[str] | None = None) -> int:
    """Runs what was typed, and gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m corehop", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    of_study = verbs.add_parser("study", help="a schedulability study on the workers of Dask")
    of_study.add_argument("what", metavar="FILE|FOLDER", help="a study (*.toml), or the folder of one")
    of_study.add_argument("--scheduler", metavar="tcp://…", help="an existing Dask scheduler")
    of_study.add_argument("--workers", type=int, metavar="N", help="workers to start on this host")
    of_study.add_argument("--shards", type=int, metavar="N", help="into how many parts to cut it")
    of_study.add_argument("--sets", type=int, metavar="N", help="in place of the study's number")
    of_study.add_argument("--seed", type=int, metavar="N", help="in place of the study's seed")
    of_study.add_argument("-o", "--output", metavar="FILE.parquet", help="write the counts")
    of_study.add_argument("--page", metavar="FILE.html", help="write a page")
    given = parser.parse_args(arguments)
    own = given.scheduler is None and given.workers is None and given.shards is None
    try:
        result = study(
            given.what,
            seed=given.seed,
            sets=given.sets,
            shards=given.shards,
            scheduler=given.scheduler,
            # Dask is what is asked for here: workers of our own, unless there is a scheduler.
            workers=_every_cpu() if own else given.workers,
        )
    except _errors.Error as error:
        _files.say(f"corehop: {error}\n")
        return error.exit_code or 1
    except OSError as error:
        _files.say(f"corehop: {error}\n")
        return 2
    if given.output:
        result.save(given.output)
    if given.page:
        result.save_page(given.page)
    print(json.dumps(result.answer, indent=2))
    return 0


def _every_cpu() -> int:
    import os

    return os.cpu_count() or 1


# Workers that are started afresh import this file, and are not to start a study.
if __name__ == "__main__":
    sys.exit(main())
