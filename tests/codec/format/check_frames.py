"""Holds tools/decode_frame.py against `comet decompress`, many frames in one process, for run_format_test.

usage: check_frames.py compare FOLDER        decodes every FOLDER/X.comet and compares it with FOLDER/X.raw
       check_frames.py damage FRAME          every single bit flipped here and there in a frame with chunk checksums is found
       check_frames.py nonsense FOLDER       frames damaged after their checksums are decoded or refused, never anything else

`compare` prints a line of statistics for every chunk; all print "FAILED: ..." for each failure and "N passed, N failed".
"""
import pathlib
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
import decode_frame  # noqa: E402


def try_decode(data):
    """Elements, statistics and the complaint, or None."""
    try:
        _, elements, stats = decode_frame.decode_frame(data)
        return elements, stats, None
    except decode_frame.Damaged as error:
        return None, [], f"refused: {error}"
    except Exception as error:  # a bug of the decoder: report it with the frame's name
        return None, [], f"broke: {error!r}"


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def compare(folder):
    """Yields a failure or None for each frame."""
    for path in sorted(pathlib.Path(folder).glob("*.comet")):
        elements, stats, complaint = try_decode(path.read_bytes())
        for chunk in stats:
            print(f"stats {path.stem}", decode_frame.stats_line(chunk))
        expected = path.with_suffix(".raw").read_bytes()
        if complaint is None and elements != expected:
            complaint = f"differs from comet at byte {first_difference(elements, expected)} of {len(expected)}"
        yield complaint and f"{path.stem}: {complaint}"


def damage(frame):
    data = pathlib.Path(frame).read_bytes()
    for place in [*range(0, min(120, len(data))), *range(120, len(data), 37)]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        _, _, complaint = try_decode(bytes(flipped))
        yield None if complaint and complaint.startswith("refused") else f"byte {place} flipped: {complaint or 'unnoticed'}"


def nonsense(folder):
    rng = random.Random(2)
    paths = sorted(pathlib.Path(folder).glob("*.comet"))
    for _ in range(150):
        path = paths[int(rng.random() * len(paths))]
        data = path.read_bytes()
        complaint = None
        if len(data) < 6000:
            complaint = decode_damaged_payload(data, rng)
        yield f"{path.stem}: {complaint}" if complaint and complaint.startswith("broke") else None


def decode_damaged_payload(data, rng):
    reader = decode_frame.ByteReader(data, "frame")
    header = decode_frame.read_header(reader)
    payloads = decode_frame.read_payloads(reader, header, decode_frame.read_index(reader, header))
    payload = bytearray(payloads[0])
    # The first bytes of a payload decide most, so half of the damage goes there.
    place = int(rng.random() * min(len(payload), 24 if rng.random() < 0.5 else len(payload)))
    payload[place] = int(rng.random() * 256)
    try:
        decode_frame.decode_chunk(header, 0, bytes(payload), {})
    except decode_frame.Damaged as error:
        return f"refused: {error}"
    except Exception as error:
        return f"broke: {error!r}"
    return None


def main():
    job = {"compare": compare, "damage": damage, "nonsense": nonsense}[sys.argv[1]]
    passed = failed = 0
    for failure in job(sys.argv[2]):
        passed += failure is None
        failed += failure is not None
        if failure:
            print("FAILED:", failure)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
