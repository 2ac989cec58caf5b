# SPDX-License-Identifier: MIT OR Apache-2.0
"""The parts of a study on the workers of Dask.

A part follows from the study, the seed and its number alone. So Dask may give it to any worker, and again to
another one when a worker is lost; each is taken over as soon as it is there, and lost no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from corehop import _corehop, _errors

if TYPE_CHECKING:
    from distributed import Client

PARTS_PER_THREAD = 4


def piece(text: str, seed: int | None, sets: int | None, shard: str) -> bytes:
    """The work of a worker: a shard of a study, on one thread."""
    return _corehop.Study(text, seed, sets).run(shard, 1).to_bytes()


def pieces(
    text: str,
    seed: int | None,
    sets: int | None,
    shards: int | None,
    scheduler: str | Client | None,
    workers: int | None,
) -> Iterator[bytes]:
    """All parts of a study, in the order in which they are done."""
    try:
        from distributed import as_completed
    except ImportError as error:
        raise _errors.NotPossible(
            "Dask is not installed here: `pip install 'corehop[dask]'` adds it; without shards, "
            "scheduler and workers a study runs in this process"
        ) from error
    if shards is not None and shards < 1:
        raise _errors.Usage(f"shards is {shards}: expected at least 1")
    with ExitStack() as stack:
        client = _client(scheduler, workers, stack)
        threads = sum(client.nthreads().values()) or 1
        count = shards or PARTS_PER_THREAD * threads
        names = [f"{at}/{count}" for at in range(count)]
        futures = [
            # Only its number tells one part from another: what was done before is not asked of Dask again.
            client.submit(piece, text, seed, sets, name, pure=False, key=f"corehop-{name}-{os.urandom(4).hex()}")
            for name in names
        ]
        # Each is dropped as soon as it is here, and with it what a lost worker would have to do again.
        for future, done in as_completed(futures, with_results=True):
            future.release()
            yield done


def _client(scheduler: str | Client | None, workers: int | None, stack: ExitStack) -> Client:
    from distributed import Client, LocalCluster

    if isinstance(scheduler, Client):
        return scheduler
    if scheduler is not None:
        if workers is not None:
            raise _errors.Usage("workers are started on this host: an existing scheduler has its own")
        client: Client = stack.enter_context(Client(scheduler))
        return client
    cluster = LocalCluster(
        n_workers=workers or os.cpu_count() or 1,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
    )
    client = stack.enter_context(Client(stack.enter_context(cluster)))
    return client
