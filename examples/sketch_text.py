"""Sketch generated reports, hand the sketches to a miner, and try to break them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tulle import SecretKey, Sketcher, Sketches, SketchKMeans, SketchKNeighborsClassifier

TOPICS = {
    "heart": "pulse pressure chest valve rhythm artery beat murmur dose clinic ward oxygen",
    "bones": "fracture joint knee cast spine hip screw plate walk clinic ward physio",
    "lungs": "cough breath smoke oxygen chest mucus inhaler spray lobe ward dose scan",
}


def reports(count: int, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Short notes, each on one topic, with some words of the others."""
    every = " ".join(TOPICS.values()).split()
    topics = rng.choice(list(TOPICS), count)
    notes = [
        " ".join([*rng.choice(TOPICS[topic].split(), 14), *rng.choice(every, 8)])
        for topic in topics
    ]
    return notes, topics.tolist()


def main() -> None:
    """Owner: sketch and keep the key. Miner: classify and cluster. Intruder: link."""
    notes, topics = reports(1500, np.random.default_rng(0))
    folder = Path(tempfile.mkdtemp())

    key = SecretKey.generate()
    key.save(folder / "owner.key")
    owner = Sketcher("delta", delta=1.0, key=key).fit(notes)
    owner.transform(notes).save(folder / "notes.parquet")

    released = Sketches.load(folder / "notes.parquet")  # the miner has no key
    print(released)
    model = SketchKNeighborsClassifier().fit(released[:1000], topics[:1000])
    print(f"accuracy on sketches   {model.score(released[1000:], topics[1000:]):.3f}")
    labels = SketchKMeans(3, random_state=0).fit(released).labels_
    print(f"sizes of three clusters {np.bincount(labels[labels >= 0]).tolist()}")

    (folder / "notes.txt").write_text("\n".join(notes) + "\n")
    command = ["sketch", "notes.txt", "-o", "again.parquet", "--delta", "1", "--seed", "1"]
    command += ["--report", "attacks.json", "--accept-risk", "the notes are made up"]
    command = [sys.executable, "-m", "tulle", *command]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    for name, attack in json.loads((folder / "attacks.json").read_text())["attacks"].items():
        print(f"intruder: {name} {attack['rate']:.1%} (guessing {attack['baseline']:.2%})")

    estimates = owner.reconstruct(released, columns=["knee"])[:, 0]
    truth = np.array([note.split().count("knee") for note in notes])
    print(f"owner: 'knee' correlates {np.corrcoef(estimates, truth)[0, 1]:.2f} with the truth")


if __name__ == "__main__":
    main()
