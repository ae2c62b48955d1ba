"""Random collectives on random groups, and ranks that are killed, for a while: is every result right, is nothing left?

    python benchmarks/stress.py [--seconds 60] [--seed N] [--most-ranks 8]
    python benchmarks/stress.py --seed N --episode E      # one episode again, as a failure says

An episode is a new group of 1 to 8 ranks, each a forked process pinned to a core, that make the same random calls:
all collectives, algorithms, types, operations, roots, sizes (0 to 4 MiB), segment sizes and knobs, in place or not,
in private and in symmetric memory, by copies, by reading peers' memory and without, with a codec that drops nothing,
at once or beside the caller, with send and recv and new allocations in between. In half
of the episodes a rank is killed at a random time. Every output is compared, byte for byte, with the tests' reference.
Then: every survivor of a kill has finished or got the error that names the dead rank, soon; no rank holds a
descriptor, a mapping or a thread more than before it joined; no child and no segment of ours is left on this host.
The first failure ends the run, with exit code 1, the seed, the episode and the call. Needs the repository: autotune
as installed, and the folder tests.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"  # a process with threads should not fork

from stress_calls import SYMMETRIC_BYTES, Player, Wrong, draw  # noqa: E402 - it needs the tests on the path

from autotune.errors import CommunicatorError  # noqa: E402 - as above
from autotune.kernels import Communicator, _native, create_segment, sharing  # noqa: E402 - as above
from autotune.types import Config  # noqa: E402 - as above

TIMEOUT_S = 20.0
WATCHDOG_S = 90.0  # for a whole episode
SURVIVORS_S = 10.0  # until they have noticed a death


class Failed(Exception):
    """An episode that went wrong."""


Answer = dict[str, object]
"""What a rank says at its end: calls, and error or wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """What is to happen. `victim` is killed `after_s` from the start, if there is one."""

    seed: int
    number: int
    n: int
    calls: int
    staging_bytes: int
    check: bool
    victim: int | None
    after_s: float


def drawn(seed: int, number: int, most_ranks: int) -> Episode:
    rng = random.Random(f"{seed}/{number}")
    n = rng.randint(1, most_ranks)
    return Episode(
        seed=seed,
        number=number,
        n=n,
        calls=rng.randint(20, 800 // n),
        staging_bytes=rng.choice((256 << 10, 1 << 20, 8 << 20)),
        check=rng.random() < 0.2,
        victim=rng.randrange(n) if n > 1 and rng.random() < 0.5 else None,
        after_s=rng.uniform(0.0, 1.0),
    )


def held() -> tuple[int, int, int]:
    """Descriptors, mappings of segments and threads of this process."""
    maps = Path("/proc/self/maps").read_text(encoding="ascii", errors="replace")
    return len(os.listdir("/proc/self/fd")), maps.count("memfd:autotune"), len(os.listdir("/proc/self/task"))


def growth(before: tuple[int, int, int]) -> str:
    """What this process holds more of than before; empty if nothing."""
    after = held()
    grown = any(now > then for now, then in zip(after, before, strict=True))
    return f"holds {after} descriptors, segments and threads, before {before}" if grown else ""


def play(episode: Episode, rank: int, fd: int, done: list[int]) -> None:
    """A rank's part. `done` counts its calls."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    rng = random.Random(f"{episode.seed}/{episode.number}/calls")
    with Communicator(
        fd,
        rank,
        episode.n,
        selector=lambda *_: Config(algorithm="flat", segment_bytes=4096),
        cores=len(cores),
        timeout_s=TIMEOUT_S,
        check=episode.check,
    ) as comm:
        player, cores_shared = Player(comm), sharing(comm.group.only_cores)
        for _ in range(episode.calls):
            next_call, other = draw(rng, episode.n, cores_shared), rng.random()
            try:
                if other < 0.05 and episode.n > 1:
                    player.exchange(rng.choice((0, 5, 70_000, 400_000)))
                elif other < 0.07:
                    player.reallocate(rng.randrange(2))
                else:
                    player.make(next_call, beside=other > 0.9)
            except Wrong as wrong:
                raise Wrong(f"{wrong} by {next_call}") from None
            done[0] += 1
        comm.barrier()


def rank_main(episode: Episode, rank: int, fd: int, answer_to: int) -> None:
    """The forked process: play, see what is left, answer in one line, end."""
    _native.die_with_parent()
    before, done = held(), [0]
    answer: Answer = {}
    try:
        play(episode, rank, fd, done)
    except CommunicatorError as err:
        answer["error"] = err.message
    except BaseException:
        answer["wrong"] = f"call {done[0]}: {traceback.format_exc()}"
    gc.collect()
    if "wrong" not in answer and (more := growth(before)):
        answer["wrong"] = more
    answer["calls"] = done[0]
    os.write(answer_to, json.dumps(answer).encode()[: 60 << 10])
    os._exit(0)


def run(episode: Episode) -> tuple[int, bool]:
    """Play one episode; the calls that rank 0 made, and whether a rank was killed.

    Raises:
        Failed: something was wrong.
    """
    fd = create_segment(episode.n, episode.staging_bytes, SYMMETRIC_BYTES)
    inode = os.fstat(fd).st_ino
    pids: list[int] = []
    pipes: list[int] = []
    try:
        for rank in range(episode.n):
            ours, theirs = os.pipe()
            pipes.append(ours)
            pid = os.fork()
            if pid == 0:
                rank_main(episode, rank, fd, theirs)
            pids.append(pid)
            os.close(theirs)
        answers = attend(episode, pids, pipes)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)  # a zombie, unless something went wrong
        statuses = [os.waitpid(pid, 0)[1] for pid in pids]
        for descriptor in (fd, *pipes):
            os.close(descriptor)
    judge(episode, answers, pids, statuses)
    if holders := holders_of(inode):
        raise Failed(f"processes {holders} still hold the segment")
    return int(str(answers[0].get("calls", 0))), any(os.WIFSIGNALED(status) for status in statuses)


def attend(episode: Episode, pids: Sequence[int], pipes: Sequence[int]) -> list[Answer]:
    """Kill the victim when it is time; what every rank answered, or an empty answer."""
    started = time.monotonic()
    kill_at = started + (episode.after_s if episode.victim is not None else WATCHDOG_S)
    end = started + WATCHDOG_S
    received = [b""] * len(pipes)
    with selectors.DefaultSelector() as waiting:
        for rank, pipe in enumerate(pipes):
            waiting.register(pipe, selectors.EVENT_READ, rank)
        while waiting.get_map():
            now = time.monotonic()
            if now >= kill_at and episode.victim is not None:
                os.kill(pids[episode.victim], signal.SIGKILL)
                kill_at, end = float("inf"), now + SURVIVORS_S
            if now >= end:
                silent = sorted(key.data for key in waiting.get_map().values())
                raise Failed(f"no answer from ranks {silent}")
            for key, _ in waiting.select(max(0.0, min(kill_at, end) - time.monotonic())):
                part = os.read(key.fd, 1 << 16)
                received[key.data] += part
                if not part:
                    waiting.unregister(key.fd)
    return [json.loads(text) if text else {} for text in received]


def judge(episode: Episode, answers: Sequence[Answer], pids: Sequence[int], statuses: Sequence[int]) -> None:
    for rank, (answer, status) in enumerate(zip(answers, statuses, strict=True)):
        if "wrong" in answer:
            raise Failed(f"rank {rank}, {answer['wrong']}")
        if not answer and rank != episode.victim:
            raise Failed(f"rank {rank} ended with status {status}")
        error = str(answer.get("error", ""))
        if error and (
            episode.victim is None or f"rank {episode.victim} (pid {pids[episode.victim]}) died" not in error
        ):
            raise Failed(f"rank {rank}, call {answer['calls']}: {error}")


def holders_of(inode: int) -> list[str]:
    """Processes that have the segment open or mapped."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            entries = sorted((process / "fd").iterdir())
            maps = (process / "maps").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue  # it has ended, or is not ours to look at
        mapped = any(f" {inode} " in line and "memfd:autotune" in line for line in maps.splitlines())
        if mapped or any(_is_segment(entry, inode) for entry in entries):
            found.append(process.name)
    return sorted(found)


def _is_segment(entry: Path, inode: int) -> bool:
    try:
        return "memfd:autotune" in os.readlink(entry) and entry.stat().st_ino == inode
    except OSError:
        return False  # closed since the listing


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", default=60.0, type=float, help="no episode starts after so many seconds")
    parser.add_argument("--seed", default=None, type=int, help="new every time by default")
    parser.add_argument("--episode", default=None, type=int, help="only this one")
    parser.add_argument("--most-ranks", default=8, type=int, help="1 to 64")
    chosen = parser.parse_args(arguments)
    if not 1 <= chosen.most_ranks <= 64:
        parser.error("--most-ranks is not 1 to 64")
    if chosen.episode is not None and chosen.seed is None:
        parser.error("--episode needs --seed")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parsed(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    before, started = held(), time.monotonic()
    calls = kills = episodes = 0
    number = chosen.episode or 0
    while episodes == 0 or (chosen.episode is None and time.monotonic() < started + chosen.seconds):
        episode = drawn(seed, number, chosen.most_ranks)
        try:
            made, killed = run(episode)
            if more := growth(before):
                raise Failed(f"this process {more}")
        except Failed as failed:
            print(f"FAILED: seed {seed}, {episode}\n{failed}", flush=True)
            print(f"again: benchmarks/stress.py --seed {seed} --episode {number} --most-ranks {chosen.most_ranks}")
            return 1
        calls, kills, episodes, number = calls + made, kills + killed, episodes + 1, number + 1
    took_s = time.monotonic() - started
    print(
        f"{episodes} episodes, {calls} calls, {kills} ranks killed in {took_s:.0f} s: all right, nothing left",
        flush=True,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
